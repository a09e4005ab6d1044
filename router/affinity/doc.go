// Package affinity knows which backend a call has to come to: the one that has its
// session, or the artifact that it names. Gateways never forward to each other; they
// agree because they all calculate the same home for a session (router.Fleet.Home) and
// because a store that they share says what differs from that.
//
//	Query ─► Find ─► Answer                    from memory, in the line of the call
//	          │ not known                         ▲
//	          ▼                                   │
//	         Ask ─► goroutine ─► Store, ≤ 100 ms ─┘    or without the store: home
//
//	store.go     what is asked of the store
//	keeper.go    New, Run: what is in memory and how much of it
//	find.go      an answer from memory
//	pinned.go    one session in memory: what is known of it, and whether it still holds
//	settle.go    where a session goes that has to be pinned, or pinned anew
//	ask.go       asking the store, once for all calls of a session
//	confirm.go   in the background: pins that are used are kept alive in the store
//	artifacts.go which backend has which artifact
//	bound.go     whose it is, where there are tenants
//
// # Sessions
//
// The first call of a session, or an upload, pins it: the store takes the first proposal
// and tells it to all others. A pin stays where it is while its backend lives, whoever
// joins or is ejected meanwhile. When the backend dies (probes say so, nobody listens at
// its address, or it is configured no more) the session's state is gone. One gateway
// moves the pin, and the one call by which it did so is told SESSION_LOST; the
// others learn of the new pin and go there. A pin where no call has been yet moves silently.
//
// The store knows which gateways may have used a pin: it notes the one that makes it for a call that
// follows, and any other that asks for it. A gateway is noted before its first call goes there, by the
// question that it has to ask anyway, so that a gateway that ends at once leaves no use untold. What
// other gateways tell of a pin, and the pin of a loss that was told, is asked for once more before it is used.
//
// A session in memory costs the store nothing: pins that calls use are confirmed in batches,
// some times in the life of a pin. That also gives them back to a store that lost them.
//
// # Without the store
//
// While it is away, or slow, a session is at home where the hash says, which is the same at
// all gateways that see the same backends. It is written down when the store is back. If there is
// another pin by then, the one that was moved more often holds, and of two that were
// not, the store's, if its backend lives. SESSION_LOST may then be told by more than
// one gateway, and for a pin that no call has used: what the store would know of it counts as used.
//
// # Artifacts
//
// Which backend gave out an artifact's id is remembered. If that backend is dead, calls
// follow their session's pin, or go to any: backends may share a place for files after all,
// and if not, one of them knows best what to answer.
//
// A bound call may only name what its tenant was given. An upload is its tenant's at
// once. A result may repeat what another tenant has: that is a claim, which counts when the
// store has said that nobody had it first. So nothing but the tenant's own is ever asked for,
// and without the store's word a call is refused.
package affinity
