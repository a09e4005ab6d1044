package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/auditlog"
	"github.com/capgate/capgate/gateway/admin/calls"
	"github.com/capgate/capgate/gateway/admin/playground"
	"github.com/capgate/capgate/gateway/admin/summary"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// newRecent makes what knows the last calls and changes of all replicas.
func (p *App) newRecent(s *settings.Settings) {
	started := time.Now().UTC()
	redis := redisState(p.store)
	p.recent = recent.New(recent.Config{
		Keep: s.Config.Calls.Keep, Replica: p.replica, Store: p.store.Recent(),
		Self: func() recent.Replica {
			r := recent.Replica{Version: p.options.Version, Started: started, Redis: redis()}
			if p.gateway == nil {
				return r
			}
			state := p.gateway.Readiness()
			r.Ready, r.Draining, r.Trouble = state.Ready && !state.Draining, state.Draining, replicaTrouble(&state)
			for _, f := range p.routing.Table().Fleets() {
				for _, b := range f.Backends {
					r.InFlight += int(b.InFlight())
				}
			}
			return r
		},
	})
	p.calls = calls.New(calls.Config{Recent: p.recent, Status: gateway.GRPCStatus,
		Link: traceLink(s.Config.Traces.Link)})
}

// traceLink returns what makes the link of a trace; nil for no template.
func traceLink(template string) func(trace string) string {
	if template == "" {
		return nil
	}
	return func(trace string) string { return strings.ReplaceAll(template, "{trace_id}", trace) }
}

// replicaTrouble returns what is wrong with this replica, and no other can see.
func replicaTrouble(r *gateway.Readiness) (all []recent.Trouble) {
	if r.Audit != "" {
		all = append(all, recent.Trouble{Kind: "audit", Text: "the audit log cannot be written"})
	}
	if c := r.Config; c != nil && c.Error != "" {
		all = append(all, recent.Trouble{Kind: "config", At: c.LoadedAt,
			Text: "the newest configuration is not in force: " + shortLine(c.Error)})
	}
	if c := r.Config; c != nil && len(c.NeedsRestart) > 0 {
		all = append(all, recent.Trouble{Kind: "config", At: c.LoadedAt,
			Text: "changes of the configuration need a restart: " + strings.Join(c.NeedsRestart, ", ")})
	}
	return all
}

// shortLine returns the first line of a text, cut after 500 bytes.
func shortLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.ToValidUTF8(line[:min(len(line), 500)], "")
}

// recentServices are the services of the admin API that show what happened lately.
func (p *App) recentServices() []admin.Service {
	about := summary.Config{
		Recent: p.recent, Status: gateway.GRPCStatus,
		Fleets: func() (all []summary.Fleet) {
			for _, f := range p.routing.Table().Fleets() {
				all = append(all, summary.Fleet{Capability: f.Capability, Backends: len(f.Backends), Usable: f.Stats().Usable})
			}
			return all
		},
		Pending: p.pendingOf,
		Letters: func(ctx context.Context) (int, error) {
			letters, err := p.letters().Dead(ctx, 0, maxLetters)
			return len(letters), err
		},
		Drifted: func() map[string]int {
			drifted := map[string]int{}
			for s := range p.tools.Stats() {
				if s.Drifted > 0 {
					drifted[s.Capability] = s.Drifted
				}
			}
			return drifted
		},
	}
	ground := playground.Config{Tools: p.tools, Decider: p.decider, Tenants: p.auth.roster, Status: gateway.GRPCStatus,
		Serve: func(w http.ResponseWriter, r *http.Request, identity tenant.Identity,
			address string) {
			p.gateway.Doors().ServeAs(w, r, identity, address)
		}, Stream: p.streamAs}
	if p.auth.directory != nil {
		ground.Settings = p.auth.directory.Settings
	}
	return []admin.Service{p.calls.Operators(), summary.New(about), auditlog.New(p.recent, gateway.GRPCStatus),
		playground.New(ground)}
}

// streamAs makes a call from the playground. The gateway is made after its admin API.
func (p *App) streamAs(ctx context.Context, identity tenant.Identity, address string, md metadata.MD,
	req *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error) {
	return p.gateway.Doors().StreamAs(ctx, identity, address, md, req)
}

// maxLetters is how many dead letters a summary counts.
const maxLetters = 1000

// pendingOf counts the approvals of tenants that wait for an answer; nil: of all.
func (p *App) pendingOf(_ context.Context, of []string) (sum summary.Pending, err error) {
	for tenant, found := range p.pending.Snapshot() {
		if of != nil && !slices.Contains(of, tenant) || found.Count == 0 {
			continue
		}
		if sum.Count += found.Count; sum.Oldest.IsZero() || found.Oldest.Before(sum.Oldest) {
			sum.Oldest = found.Oldest
		}
	}
	return sum, nil
}
