// Package turns serializes messages at an engine, at all replicas together, and grants leases of engines.
//
//	Take ──► a ticket in the queue ──► a Turn: held, renewed ──► Done: the next ticket is notified
//	Acquire ──► a Lease: held, renewed ──► Release, or Lost after a takeover
//
// The queue is bounded and fair: tenants alternate, and each tenant's tickets are served in order of arrival. The
// order and the clock are the store's. Tickets of a replica that dies expire.
//
// While the store is unavailable, turns and leases are kept, and tickets keep waiting for a limited time. A store
// that comes back empty grants no turn until holders have had the time to renew theirs. A store that lost only its
// latest writes, as after a failover, may grant two turns at once.
//
// The package is independent of protocols, and identifies engines by name.
package turns
