// Package access says who a caller is and what that principal may do: static tokens,
// OpenID Connect, client certificates and the peers of a Unix socket become
// principals; roles grant them actions on tables of catalogs. It holds no state of a
// catalog. Everything not granted is refused.
package access
