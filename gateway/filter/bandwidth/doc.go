// Package bandwidth is the filter that holds streams to their tenant's limits of bytes per second, size of an artifact,
// and messages of a stream. It is also the filter that charges a tenant for the memory that the relay holds for its
// calls (the row "memory" of the chain).
//
//	filter.go  the filter, and what becomes of a stream that brings too much
//	flow.go    the groups of streams, one for each tenant, and their rates
//
// The relay counts bytes and slows streams down. The filter puts each call into its tenant's group, and rejects a call
// only where the group is more than a second behind, or its memory is full. It never buffers or counts itself.
package bandwidth
