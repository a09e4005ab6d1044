package main

import (
	"context"
	"fmt"

	"github.com/capgate/capgate/bench/tenants"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// tenants measures authentication, limits and recording.
func (b *bench) tenants(ctx context.Context) (string, error) {
	var servers redistest.Main
	defer servers.Close()
	r, err := tenants.Measure(ctx, redistest.Start(&servers).URL())
	if err != nil {
		return "", fmt.Errorf("tenants: %w", err)
	}
	return fmt.Sprintf("%s. Times are of a batch that one in ten is faster than.\n\n", machine()) +
		"| a key that was shown before | no limits | calls per second, at once, and two budgets | metrics and the " +
		"log's line | all of these | allocations |\n|---|---|---|---|---|---|\n" +
		fmt.Sprintf("| %.0f ns | %.1f ns | %.0f ns | %.0f ns | %.0f ns | %.0f |\n", r.Identity, r.NoLimits, r.Limits,
			r.Record, r.All, r.Allocs), nil
}
