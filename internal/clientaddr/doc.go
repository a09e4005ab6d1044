// Package clientaddr finds out who a call comes from when load balancers and proxies stand between.
//
//	connection ─► PROXY header (proxy.go) ─► whose it is
//	call ───────► X-Forwarded-For or Forwarded (forwarded.go) ─► whose it is, if a trusted proxy says so
//
// What anybody else says of addresses is not believed, and goes no further (hidden.go). It knows
// neither calls nor tenants: an address is no identity.
package clientaddr
