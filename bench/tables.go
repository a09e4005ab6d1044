package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/proc"
	"github.com/capgate/capgate/bench/table"
)

// roleTable measures tables; its argument is the number of capabilities.
const roleTable = "as-table"

func asTable(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want a number of capabilities, got %q", args)
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of capabilities", args[0])
	}
	res, err := table.Measure(n)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

// tables measures tables of several sizes, each in its own process.
func (b *bench) tables(ctx context.Context) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s. %d backends for each capability; times are the best of several.\n\n", machine(),
		table.Backends)
	out.WriteString("| capabilities | router | gateway | prober | a backend, all told | new health of a fleet | new " +
		"table, one fleet differs | all differ | a call routed | allocations |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, n := range []int{1, 100, 10_000} {
		cmd := exec.CommandContext(ctx, b.self, roleTable, strconv.Itoa(n))
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		cmd.Stderr = os.Stderr
		var answer strings.Builder
		cmd.Stdout = &answer
		if err := proc.Start(cmd, b.opts.proxyCore); err != nil {
			return "", fmt.Errorf("tables: %w", err)
		}
		if err := cmd.Wait(); err != nil {
			return "", fmt.Errorf("tables of %d capabilities: %w", n, err)
		}
		var r table.Result
		if err := json.Unmarshal([]byte(answer.String()), &r); err != nil {
			return "", fmt.Errorf("tables of %d capabilities: %w", n, err)
		}
		each := float64(r.Router+r.Gateway+r.Prober) / float64(n*table.Backends)
		fmt.Fprintf(&out, "| %d | %s | %s | %s | %.0f B | %s | %s | %s | %d ns | %.0f |\n", n, mib(r.Router),
			mib(r.Gateway), mib(r.Prober), each,
			short(r.Health), short(r.One), short(r.All), r.Route.Nanoseconds(), r.Allocs)
	}
	return out.String(), nil
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
