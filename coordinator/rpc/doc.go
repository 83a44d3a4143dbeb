// Package rpc serves catalogs over gRPC: the services of proto/txcoord/v1, the
// translation between wire and domain (convert.go, answers.go) and from domain
// errors to statuses (errors.go). It holds no state of its own beside the requests
// in flight.
package rpc
