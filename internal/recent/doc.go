// Package recent has what happened lately at all replicas: the last calls, counts of calls by minute, the last changes
// by operators, and the replicas themselves. The admin API shows it.
//
//	Record ─► cell.go ── merge ─► share.go ─► log.go Run ─► Store (Redis) ─► other replicas
//	                                 │            │
//	                                 └────────────┴─ this replica alone ─► List, Watch, Minutes, Replicas, Changes
//
//	call.go      a call that has ended, without arguments, results and credentials
//	cell.go      the calls of a shard until they are merged with those of the others
//	ring.go      a call that is kept: a copy into memory of its own, without allocation
//	share.go     the last calls, and which one is displaced: those of the loudest first
//	log.go       a Log: recording, and publishing beside the path of calls
//	list.go      pages of calls, and filters
//	keep.go      calls for the archive, and how many it has not accepted
//	archive.go   calls of days, and their search
//	watch.go     calls as they end
//	minutes.go   counts by minute and tenant
//	changes.go   changes by operators
//	replica.go   what a replica says of itself
//	store.go     what replicas share
//
// It is no record for the law: calls are left out under load, and all is lost with Redis. The access log and the audit
// log have everything.
package recent
