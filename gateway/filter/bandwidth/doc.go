// Package bandwidth implements the filter that applies a tenant's limits of bytes per second, artifact size, and
// messages per stream. It also charges the tenant for the memory that the relay holds for its calls (the row "memory"
// of the chain).
//
//	filter.go  the filter, and the end of streams that exceed a limit
//	flow.go    the groups of streams, one for each tenant, and their rates
//
// The relay counts bytes and slows streams down. The filter assigns each call to its tenant's group. It rejects a call
// only if the group is more than a second behind, or its memory is full.
package bandwidth
