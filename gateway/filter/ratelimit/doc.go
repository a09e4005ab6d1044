// Package ratelimit is the filter that rejects calls beyond their tenant's limits: calls per second, calls at once, and
// quotas of days and months. A call gets a permit, which is leased from what the replicas share (internal/ratelimit),
// and gives it back when it ends.
//
// It decides from memory in the steady state; else the call waits, a tenth of a second at most, and its peeked fields
// are kept for it. In shadow a limit rejects nothing and is only recorded.
//
// It never looks at arguments, never asks a store itself, and knows nothing of bandwidth or of message counts (see
// gateway/filter/bandwidth) or of limits of fleets (see gateway/filter/pick).
package ratelimit
