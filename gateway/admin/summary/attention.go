package summary

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Limits of the lists in a summary.
const (
	maxFleets   = 20
	maxTroubles = 20
	maxNear     = 10 // tenants near a limit
)

// attention is a condition that needs attention.
type attention = capgatepb.GetSummaryResponse_Attention

// attend adds the conditions that need attention, the most urgent first. If narrow is true, the operator of tenants
// sees only their approvals and limits.
func (s *server) attend(ctx context.Context, to *capgatepb.GetSummaryResponse, replicas []recent.Replica,
	tenants []string, narrow bool) {
	if narrow {
		s.addPending(ctx, to, tenants)
		s.addNear(ctx, to, tenants)
		return
	}
	if to.GetRedis() == "away" {
		to.Attention = append(to.Attention, &attention{Kind: "redis", Link: "#/",
			Text: "Redis does not respond; each replica continues with its cached state"})
	}
	troubles := 0
	for i := range replicas {
		for _, t := range replicas[i].Trouble {
			text := t.Text
			if len(replicas) > 1 {
				text = "replica " + replicas[i].ID + ": " + text
			}
			if troubles++; troubles <= maxTroubles {
				to.Attention = append(to.Attention, &attention{Kind: t.Kind, Text: text, Link: "#/",
					Subject: replicas[i].ID, Time: restjson.Time(t.At)})
			}
		}
	}
	s.addFleets(to)
	s.addPending(ctx, to, tenants)
	s.addNear(ctx, to, tenants)
	s.addLetters(ctx, to)
	s.addDrift(to)
}

func (s *server) addFleets(to *capgatepb.GetSummaryResponse) {
	if s.Fleets == nil {
		return
	}
	fleets := s.Fleets()
	to.Fleets = int32(len(fleets))
	for _, f := range fleets {
		if f.Usable > 0 {
			to.FleetsUsable++
		}
	}
	fleets = slices.DeleteFunc(fleets, func(f Fleet) bool { return f.Usable > 0 && f.Usable >= f.Backends })
	slices.SortFunc(fleets, func(a, b Fleet) int {
		return cmp.Or(cmp.Compare(a.upShare(), b.upShare()), cmp.Compare(a.Capability, b.Capability))
	})
	for _, f := range fleets[:min(len(fleets), maxFleets)] {
		of := &attention{Kind: "fleet", Link: "#/fleets", Subject: f.Capability, Count: int32(f.Backends)}
		switch {
		case f.Backends == 0:
			of.Text = f.Capability + " has no backends"
		case f.Usable == 0:
			of.Text = fmt.Sprintf("%s gets no calls: 0 of %d backends up", f.Capability, f.Backends)
		default:
			of.Kind, of.Text = "backends", fmt.Sprintf("%s: %d of %d backends up", f.Capability, f.Usable, f.Backends)
		}
		to.Attention = append(to.Attention, of)
	}
	if more := len(fleets) - maxFleets; more > 0 {
		to.Attention = append(to.Attention, &attention{Kind: "fleet", Link: "#/fleets", Count: int32(more),
			Text: fmt.Sprintf("%d more fleets have backends that are not up", more)})
	}
}

// upShare returns the share of usable backends.
func (f Fleet) upShare() float64 { return float64(f.Usable) / float64(max(f.Backends, 1)) }

func (s *server) addPending(ctx context.Context, to *capgatepb.GetSummaryResponse, tenants []string) {
	if s.Pending == nil {
		return
	}
	p, err := s.Pending(ctx, tenants)
	if err != nil {
		to.Partial = true
		return
	}
	if to.PendingApprovals = restjson.Int32(p.Count); p.Count == 0 {
		return
	}
	text := "one call is waiting for approval"
	if p.Count > 1 {
		text = fmt.Sprintf("%d calls are waiting for approval", p.Count)
	}
	to.Attention = append(to.Attention, &attention{Kind: "approvals", Text: text, Link: "#/inbox",
		Count: to.GetPendingApprovals(), Time: restjson.Time(p.Oldest)})
}

// addNear adds tenants that have used most of a quota, the most used first.
func (s *server) addNear(ctx context.Context, to *capgatepb.GetSummaryResponse, tenants []string) {
	if s.Near == nil {
		return
	}
	near, all, err := s.Near(ctx, tenants, maxNear)
	if err != nil {
		to.Partial = true
		return
	}
	slices.SortFunc(near, func(a, b NearLimit) int {
		return cmp.Or(cmp.Compare(b.share(), a.share()), cmp.Compare(a.Tenant, b.Tenant))
	})
	for _, n := range near {
		to.Attention = append(to.Attention, &attention{Kind: "limits", Subject: n.Tenant, Count: restjson.Int32(n.Used),
			Link: "#/tenants/" + url.PathEscape(n.Tenant),
			Text: n.Text()})
	}
	if more := all - len(near); more > 0 {
		to.Attention = append(to.Attention, &attention{Kind: "limits", Link: "#/tenants/-", Count: int32(more),
			Text: fmt.Sprintf("%d more tenants may be near a limit", more)})
	}
}

// Text returns what was used, with what the quota counts.
func (n NearLimit) Text() string {
	who, of := n.Tenant, ""
	switch n.Per {
	case "user":
		who = "a user of " + n.Tenant
	case "agent":
		who = "an agent of " + n.Tenant
	case "capability":
		of = " for a capability"
	}
	if n.Capability != "" && n.Capability != "*" {
		of = " for " + n.Capability
		if n.Tool != "" {
			of += "." + n.Tool
		}
	} else if n.Tool != "" {
		of += " for the tool " + n.Tool
	}
	return fmt.Sprintf("%s has used %.0f%% of its %d calls %s%s", who, 100*n.share(), n.Most, n.Period, of)
}

func (n NearLimit) share() float64 { return float64(n.Used) / float64(max(n.Most, 1)) }

func (s *server) addLetters(ctx context.Context, to *capgatepb.GetSummaryResponse) {
	if s.Letters == nil {
		return
	}
	n, err := s.Letters(ctx)
	switch {
	case err != nil:
		to.Partial = true
	case n > 0:
		to.Attention = append(to.Attention, &attention{Kind: "webhooks", Link: "#/webhooks", Count: int32(n),
			Text: fmt.Sprintf("%d notices could not be delivered", n)})
	}
}

func (s *server) addDrift(to *capgatepb.GetSummaryResponse) {
	if s.Drifted == nil {
		return
	}
	drifts := s.Drifted()
	slices.SortFunc(drifts, func(a, b Drift) int { return cmp.Compare(a.Capability, b.Capability) })
	for _, d := range drifts[:min(len(drifts), maxFleets)] {
		of := &attention{Kind: "drift", Link: "#/tools/" + inAddress(d.Capability), Subject: d.Capability,
			Count: int32(d.Tools)}
		if d.Tools == 1 {
			of.Text = fmt.Sprintf("%s: the tool %s has changed and is not accepted", d.Capability, d.First)
			of.Link += "/" + inAddress(d.First)
		} else {
			of.Text = fmt.Sprintf("%s: %d tools have changed and are not accepted", d.Capability, d.Tools)
		}
		to.Attention = append(to.Attention, of)
	}
}

// inAddress returns a name as a part of an address of the console.
func inAddress(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }
