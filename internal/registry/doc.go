// Package registry knows the backends that the configuration does not list one by one:
//
//	dns:///weather.ns.svc:50051 ─► names.go ───┐ asks again and again
//	                                           ├─► Members ─► Options.Changed
//	capgate register ─► register.go ─► Leases ─┘ follow.go: what all replicas registered
//
// It says where a capability's backends are, and nothing of whether they work: that is
// health's. So it never forgets because somebody is silent. A name that cannot be
// resolved keeps its last addresses, and while the store of the leases is away, or has
// come back empty, what is known stays.
//
// A backend may bring the manifest of its capability (manifests.go). Here that is a text that all
// who bring it have in common; what it says is read elsewhere.
//
// What registers itself is not trusted with every address (forbidden.go): host names
// are resolved once, here, and only the addresses that were looked at are ever dialled.
package registry
