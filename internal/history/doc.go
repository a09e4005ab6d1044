// Package history has the calls of the last seven days in numbers: by fleet, backend, tool and tenant, over one hour in
// minutes, over a day in steps of ten minutes, and over a week in hours. All replicas share it.
//
//	Record ─► routes ─► pending points ── Run, every minute ─► Store (Redis) ◄─ Read
//
//	point.go     what is counted in one step, and its text
//	route.go     the calls of a shard, until they are in their series
//	series.go    what is counted apart, and the bounds of that
//	span.go      the lengths of time and their steps
//	adopt.go     the series that a replica takes over when it starts
//	log.go       a Log: recording, and publishing beside the path of calls
//	read.go      the points of a series
//	metrics.go   how many calls had no series of their own
//	mark.go      starts and reloads of replicas
//	store.go     what replicas share
//
// Content of calls, users, agents and keys are not in it. All is lost with Redis.
package history
