// Package affinity finds the backend that a call must reach: the one that has its session, or
// the artifact that it names. Gateways never forward to each other. They agree because all of them
// compute the same home for a session (router.Fleet.Home), and because a shared store holds the
// exceptions.
//
//	Query ─► Lookup ─► Answer                   from memory, on the path of the call
//	          │ not known                         ▲
//	          ▼                                   │
//	       Resolve ─► goroutine ─► Store, ≤ 100 ms┘   without the store: the home
//
//	store.go      the interface of the store
//	resolver.go   New, Run: the pins in memory, and their bounds
//	lookup.go     answers from memory
//	pinned.go     one session in memory, and whether its pin is still valid
//	transition.go pins new sessions, and moves those whose backend died
//	resolve.go    queries the store, once for all calls of a session
//	renew.go      in the background: renews the pins in use
//	artifacts.go  which backend has which artifact
//	ownership.go  which tenant owns it
//
// # Sessions
//
// The first call of a session, or an upload, pins it. The store accepts the first proposal and
// returns it to all others. A pin stays valid while its backend is alive, even when other backends
// join or are ejected. When the backend dies, the session's state is lost: probes say so, its port is
// closed, or it is no longer configured. One gateway then moves the pin, and the one call that
// caused the move gets SESSION_LOST. Other gateways learn of the new pin and follow it. A pin that no
// call has used moves silently.
//
// Backends of a fleet with Affinity.Durable have their sessions on disk. Their pins stay valid while the backend is
// away, and its calls are rejected meanwhile. A session is lost only with its backend's place in a fleet that has
// others.
//
// The store registers the gateways that may have used a pin: the gateway that makes it for a call,
// and every other one that queries it. A gateway is registered before its first call, by the query
// that it needs anyway, so that no use is lost when a gateway crashes. A pin that was learned from an
// event, or that replaced a lost one, is queried once more before its use.
//
// A session in memory costs the store little: pins in use are renewed in batches, a few times in
// the life of a pin. The renewal also restores them in a store that lost them.
//
// # Without the store
//
// While the store is unavailable or slow, a session uses the home that the hash yields. It is the
// same at all gateways that see the same backends, and is stored when the store is back. If another
// pin exists by then, the one with more moves wins. Of two unmoved pins the store's wins, if its
// backend is alive. SESSION_LOST may then come from several gateways, and for an unused pin: without
// the store's answer it counts as used.
//
// # Artifacts
//
// The package remembers which backend returned an artifact's id. If that backend is dead, calls
// follow their session's pin, or go to any backend: backends may share a file store, and otherwise
// one of them can give the best error.
//
// An OwnedOnly call may name only its tenant's artifacts. An upload is owned at once. A result may
// repeat another tenant's artifact: such a claim counts once the store has confirmed that there is no
// earlier owner. Only the tenant's own artifacts are ever looked up, and without the store's answer a
// call is rejected.
package affinity
