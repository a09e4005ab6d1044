package recent

import (
	"context"
	"time"
)

// Batch is one publication of a replica.
type Batch struct {
	Calls   []Call
	Minutes map[int64]map[string]Counts // what to add, by minute and tenant
	Changes []Change
	Replica *Replica // nil: nothing is said of the replica
}

// Empty reports whether there is nothing to publish.
func (b *Batch) Empty() bool {
	return len(b.Calls)+len(b.Minutes)+len(b.Changes) == 0 && b.Replica == nil
}

// Store is shared by replicas. Its errors mean that it does not respond.
type Store interface {
	// Publish stores a batch, and notifies the watchers of calls. It keeps the newest calls of each flow, keep in
	// total, and the newest changes.
	Publish(ctx context.Context, b *Batch, keep int) error
	Calls(ctx context.Context) ([]Call, error) // in any order
	// Minutes returns the counts of minutes, the sum of those of some tenants; nil: of all.
	Minutes(ctx context.Context, minutes []int64, tenants []string) ([]Counts, error)
	Replicas(ctx context.Context, within time.Duration) ([]Replica, error) // that published within the time
	Changes(ctx context.Context) ([]Change, error)                         // the newest first
	Leave(ctx context.Context, replica string) error                       // removes a replica
	// Watch reports published calls until ctx ends, and calls connected where some may have been missed. Neither
	// function may block.
	Watch(ctx context.Context, told func([]Call), connected func())
}
