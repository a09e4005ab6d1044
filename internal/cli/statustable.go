package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxWhy is the maximum length of a reason in the table, in characters.
const maxWhy = 160

// printFleets shows fleets to people, on the terminal that out is, if it is one.
func printFleets(w io.Writer, all *capgatepb.ListFleetsResponse, now time.Time, out any) {
	fmt.Fprintf(w, "replica %s, redis %s, %s\n\n", all.GetGateway().GetReplica(),
		all.GetGateway().GetRedis(), count(int(all.GetTotalSize()), "fleet"))
	t := newTable("CAPABILITY", "BACKEND", "STATE", "AGE", "IN FLIGHT", "LATENCY", "PROBED BY", "REASON").
		on(out, "no backends", "PROBED BY", "LATENCY", "IN FLIGHT")
	for _, f := range all.GetFleets() {
		for _, x := range f.GetBackends() {
			probed := x.GetProbedBy()
			if probed == all.GetGateway().GetReplica() {
				probed = "this one"
			}
			t.row(f.GetCapability(), untrusted.Beginning(x.GetAddr(), maxWhy), x.GetState(), age(x.GetSince(), now),
				x.GetInFlight(), latency(x.GetLatencyMs()),
				untrusted.Beginning(probed, maxWhy), untrusted.Beginning(reasonFor(x), maxWhy))
		}
	}
	t.print(w)
	before := "\n"
	for _, f := range all.GetFleets() {
		if trouble := troubleOf(f); trouble != "" {
			fmt.Fprintf(w, "%s%s: %s\n", before, f.GetCapability(), trouble)
			before = ""
		}
	}
}

// reasonFor returns the reason of a state. A healthy backend needs none: what it says of itself is in -o json.
func reasonFor(x *capgatepb.Backend) string {
	if x.GetState() == "up" {
		return ""
	}
	return x.GetWhy()
}

func troubleOf(f *capgatepb.Fleet) string {
	switch {
	case len(f.GetBackends()) == 0:
		return "no backends"
	case f.GetUsable() == 0:
		return "no usable backend"
	case f.GetPanic():
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
