// Package approvals lets a person decide on calls that policy asks about. A call does not
// wait inside itself: it is refused with an approval's id, and made again once that is
// answered.
//
//	            Ask                 Approve               Use
//	call ──► pending ──────────────► approved ──────────► used ──► the call runs, once
//	            │  Deny                  │     ◄──────────
//	            ├──────► denied          │       Release: no byte of it went out
//	            └──────► expired ◄───────┘
//	             its time is over
//
// An approval holds for one call: tenant, user, agent, capability, tool, the tool's schema
// and the arguments, all of which Use compares. The same call asked for again while one is
// open gets the same one.
//
// All state is in a [Store] that replicas share, by whose clock times are; it changes in
// steps that nothing comes between. A Keeper remembers nothing but remembered sessions, for
// a moment, and who waits. While the store is away everything is refused.
//
// Use consumes before the first byte of the call goes out. Who dies in between leaves an
// approval that is used and a call that never ran; it never runs twice. The one thing that
// could undo a use is a store that loses what it has acknowledged, as a Redis does that fails
// over to a replica which was behind.
//
// Arguments are in no error, log or metric. The store has their hash, and what an approver
// gets to see: encrypted where there is a key, else only a preview whose secrets are masked.
package approvals
