package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/capgate/capgate/gateway/admin"
)

// maxWhy is how much of a reason the table shows, in characters.
const maxWhy = 160

// printFleets shows fleets to people.
func printFleets(w io.Writer, all admin.Fleets, now time.Time, color bool) {
	fmt.Fprintf(w, "replica %s, redis %s, %s\n\n", all.Gateway.Replica, all.Gateway.Redis, count(all.TotalSize, "fleet"))
	t := newTable("CAPABILITY", "BACKEND", "STATE", "AGE", "IN FLIGHT", "LATENCY", "PROBED BY", "REASON")
	t.color = color
	for _, f := range all.Fleets {
		for _, x := range f.Backends {
			probed := x.ProbedBy
			if probed == all.Gateway.Replica {
				probed = "this one"
			}
			t.row(f.Capability, beginning(x.Addr, maxWhy), x.State, age(x.Since, now), x.InFlight, latency(x.LatencyMS),
				beginning(probed, maxWhy), beginning(reasonFor(&x), maxWhy))
		}
	}
	t.print(w)
	before := "\n"
	for _, f := range all.Fleets {
		if trouble := troubleOf(f); trouble != "" {
			fmt.Fprintf(w, "%s%s: %s\n", before, f.Capability, trouble)
			before = ""
		}
	}
}

// reasonFor returns the reason of a state. A healthy backend needs none: what it says of itself is in -o json.
func reasonFor(x *admin.Backend) string {
	if x.State == "up" {
		return ""
	}
	return x.Why
}

func troubleOf(f admin.Fleet) string {
	switch {
	case len(f.Backends) == 0:
		return "no backends"
	case f.Usable == 0:
		return "no usable backend"
	case f.Panic:
		return "fewer than half are healthy: calls also go to unhealthy backends"
	default:
		return ""
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
