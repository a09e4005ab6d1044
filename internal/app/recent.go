package app

import (
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/auditlog"
	"github.com/capgate/capgate/gateway/admin/calls"
	"github.com/capgate/capgate/gateway/builtin/owncalls"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// recentFeature keeps the last calls and changes of all replicas.
func recentFeature() feature {
	return feature{
		build: func(p *App) error {
			c, store := p.started.Config.Calls, p.store.Recent()
			c.Replica, c.Store, c.Archive, c.Self = p.replica, store, store, p.self(time.Now().UTC())
			c.Log, c.Replicas = p.log, p.sharers()
			p.recent = recent.New(c)
			last := calls.New(calls.Config{Recent: p.recent,
				Link: traceLink(p.started.Config.Traces.Link)})
			p.parts.Observe.Recent = p.recent
			p.parts.services = append(p.parts.services, last.Operators(), auditlog.New(p.recent))
			p.parts.leaving = append(p.parts.leaving, last.Leave)
			p.parts.builtins = append(p.parts.builtins, func(g grpc.ServiceRegistrar) {
				capgatepb.RegisterOwnCallsServer(g, owncalls.New(p.recent, nil))
			})
			return p.metrics.Add(p.recent)
		},
		run: func(p *App, w *work) { w.loop("recent calls", p.recent.Run) },
		close: func(p *App) {
			if p.recent != nil {
				p.recent.Close()
			}
		},
	}
}

// self returns what other replicas learn of this one.
func (p *App) self(started time.Time) func() recent.Replica {
	redis := redisState(p.store)
	return func() recent.Replica {
		r := recent.Replica{Version: p.options.Version, Started: started, Redis: redis()}
		if p.gateway == nil {
			return r
		}
		state := p.gateway.Readiness()
		r.Ready, r.Draining, r.Trouble = state.Ready && !state.Draining, state.Draining, replicaTrouble(&state)
		for _, f := range p.fleets.routing.Table().Fleets() {
			for _, b := range f.Backends {
				r.InFlight += int(b.InFlight())
			}
		}
		return r
	}
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
	return untrusted.Cut(line, 500)
}
