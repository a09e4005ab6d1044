// Package clientaddr determines the address of a client behind load balancers and proxies.
//
//	connection ─► PROXY header (proxy.go) ─► client address
//	call ───────► X-Forwarded-For or Forwarded (forwarded.go) ─► client address, if a trusted proxy sends it
//
// Addresses in headers of other peers are not trusted, and are not forwarded (reserved.go). The package knows
// neither calls nor tenants: an address is not an identity.
package clientaddr
