// Package turns lets things happen one at a time at an engine, whichever replica they come to.
//
//	Take ──► a ticket waits in line ──► a Turn: held, renewed ──► Done: the next is told
//	Seize ──► a Lease: held, renewed ──► Release, or Lost when another took it over
//
// The line is bounded and fair: tenants alternate, and within a tenant who came first goes
// first. The order is the store's, and so is the clock. Whose replica dies is dropped some
// time after it was last heard of.
//
// While the store is unavailable who has something keeps it, and who waits waits on for a while. A
// store that has come back empty gives nobody a turn until those who have one could say so. One
// that lost only the last it was told, as a failover may, can let two have a turn at once.
//
// It speaks no protocol, and does not know what an engine is.
package turns
