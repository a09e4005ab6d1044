package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/capgate/capgate/gateway/admin"
)

// maxWhy is how much of a reason the table shows, in characters.
const maxWhy = 160

// statusTable shows fleets to people.
func statusTable(all admin.Fleets, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "replica %s, redis %s, %s\n\n", all.Gateway.Replica, all.Gateway.Redis, count(all.TotalSize, "fleet"))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CAPABILITY\tBACKEND\tSTATE\tSINCE\tCALLS\tLATENCY\tPROBED BY\tWHY")
	var troubles []string
	for _, f := range all.Fleets {
		for _, x := range f.Backends {
			probed := x.ProbedBy
			if probed == all.Gateway.Replica {
				probed = "this one"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", f.Capability, beginning(x.Addr, maxWhy), x.State,
				age(x.Since, now), x.InFlight,
				latency(x.LatencyMS), orDash(beginning(probed, maxWhy)), orDash(beginning(x.Why, maxWhy)))
		}
		if trouble := troubleOf(f); trouble != "" {
			troubles = append(troubles, f.Capability+": "+trouble)
		}
	}
	_ = w.Flush() // into memory
	if len(troubles) > 0 {
		b.WriteString("\n" + strings.Join(troubles, "\n") + "\n")
	}
	return b.String()
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

// age is the time since then, in its largest units.
func age(then *time.Time, now time.Time) string {
	if then == nil {
		return "-"
	}
	d := max(now.Sub(*then), 0).Truncate(time.Second)
	switch {
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

func latency(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d <= 0:
		return "-"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
