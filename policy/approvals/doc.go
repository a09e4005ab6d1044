// Package approvals lets a person decide on calls for which policy requires an approval. Such a call does
// not block: it is refused with the id of an approval, and repeated once that is answered.
//
//	           Create               Approve              Redeem
//	call ──► pending ──────────────► approved ──────────► used ──► the call runs, once
//	            │  Deny                  │     ◄──────────
//	            ├──────► denied          │       Release: no byte of it went out
//	            └──────► expired ◄───────┘
//	          it expires
//
// An approval is bound to one call: tenant, user, agent, capability, tool, the tool's schema and the
// arguments, all of which Redeem compares. A repetition of the call gets the same open approval.
//
// All state is in a [Store] that replicas share, whose clock sets all times. Its transitions are atomic. A
// Service holds only a short-lived cache of answers for sessions, and the waiters. While the store is
// unavailable every request is refused.
//
// Redeem consumes an approval before the first byte of the call is sent. A crash in between leaves a used
// approval and a call that never ran; no call runs twice. Only a store that loses acknowledged writes
// could undo a redemption, such as a Redis that fails over to a lagging replica.
//
// Errors, logs and metrics contain no arguments. The store has their hash and the approver's view:
// encrypted if there is a key, else only a preview with masked secrets.
package approvals
