// Package ratelimit implements the filter that applies a tenant's limits: calls per second, concurrent calls, and
// daily and monthly quotas. A call takes a permit, which is leased from the shared limit of the replicas
// (internal/ratelimit), and returns it at its end.
//
// In the steady state it decides from memory; otherwise the call waits for at most 100 ms, with a copy of its peeked
// fields. In shadow mode a limit is only recorded.
//
// Limits of bandwidth and message counts are in gateway/filter/bandwidth, limits of fleets in gateway/filter/pick.
package ratelimit
