// Package registry holds the backends that the configuration does not list individually:
//
//	dns:///weather.ns.svc:50051 ─► name.go ───┐ periodic lookups
//	                                           ├─► Members ─► Options.Changed
//	capgate register ─► register.go ─► Leases ─┘ sync.go: what all replicas registered
//
// It holds the addresses of a capability's backends, but not their health: that is package health. So silence
// removes no backend. A name that cannot be resolved keeps its last addresses, and while the store of the
// leases is unavailable or empty, known leases stay.
//
// A backend may provide the manifest of its capability (manifests.go). Here it is an opaque text, stored once
// for all backends with the same text.
//
// A registration is not trusted with every address (addresses.go): host names are resolved once, here, and
// only checked addresses are ever dialled.
package registry
