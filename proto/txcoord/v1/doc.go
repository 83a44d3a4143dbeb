// Package txcoordv1 is the wire contract, generated from the .proto files beside
// it by `make generate`. Domain code never imports it: coordinator/rpc translates.
package txcoordv1
