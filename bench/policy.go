package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/capgate/capgate/bench/rules"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// policy measures policy decisions.
func (b *bench) policy(ctx context.Context) (string, error) {
	var servers redistest.Main
	defer servers.Close()
	server := redistest.Start(&servers)
	rules.Fill(server)
	r, err := rules.Measure(ctx, server.URL())
	if err != nil {
		return "", fmt.Errorf("decisions: %w", err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s. %d rules in Redis, %d decisions in memory; times are the best of several.\n\n", machine(),
		rules.Rules, rules.Entries)
	out.WriteString("| for a hundred callers | some more often (Zipf 1.1) | any | not in memory | allocations | to " +
		"ask Redis for all |\n|---|---|---|---|---|---|\n")
	fmt.Fprintf(&out, "| %.0f ns | %.0f ns | %.0f ns | %.2f%% | %.0f | %s |\n", r.Hot, r.Zipf, r.Uniform, 100*r.Unknown,
		r.Allocs, short(r.Warm))
	return out.String(), nil
}
