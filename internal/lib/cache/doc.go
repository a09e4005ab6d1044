// Package cache keeps what a process has read from a store that it shares with others.
//
//	cache.go, shard.go  Cache: bounded memory, shared fairly by owners; a hit takes no lock and allocates nothing
//	freshness.go        Freshness: how long an entry is valid, and what counts while the store is silent
//	flights.go          Flights: concurrent requests for one key share one request to the store
//
// The user of a Cache decides what an entry means, so an entry may also say that the store has nothing under its key.
// An answer that was requested before a change must not be stored after it: the user takes a Stamp before the request,
// and stores the answer with PutSince.
package cache
