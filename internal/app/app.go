package app

import (
	"context"
	"io"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/fleetplan"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
)

// App is a serving process. Its fields are shared by features; each feature keeps its other state itself.
type App struct {
	options  Options
	started  *settings.Settings // of the start
	replica  string             // unique name of this replica
	features []feature          // built or started

	log       *slog.Logger
	accessLog *telemetry.AccessLog
	metrics   *telemetry.Metrics
	audit     *audit.Log // also without audit.to: then of changes alone
	store     *redisstore.Store
	secret    *sharedkey.Secret // of all replicas
	recent    *recent.Log       // the last calls and changes
	history   *history.Log      // the numbers of calls of the last seven days
	uses      *daily.Log        // the use of tenants' limits by day

	ports     ports
	fleets    fleets
	tools     toolParts
	auth      authentication
	operators operators // of the admin API
	persons   persons   // people that sign in with a browser
	rules     decisions
	approvals approvalService
	parts     parts
	gateway   *gateway.Gateway
}

// Options configure a process by its environment.
type Options struct {
	Log               io.Writer
	Version, Revision string             // of the program
	RuntimeDir        string             // for the file with the start token; "": there is no such file
	File              string             // of the configuration, which is loaded again when it changes; "": no file
	Overrides         settings.Overrides // of the file
	HangUp            <-chan os.Signal   // also loads the file; may be nil
}

// parts collects what features add to the gateway while they are built.
type parts struct {
	gateway.Config
	first    *fleetplan.Plan               // of the settings of the start
	services []admin.Service               // of the admin API
	mounts   []func(*guard.Mux)            // of the admin API, besides services
	builtins []func(grpc.ServiceRegistrar) // for callers
	leaving  []func()                      // end what would go on after the last call
}

// New makes a process that listens but does not serve yet.
func New(s *settings.Settings, o Options) (*App, error) {
	p := &App{options: o, started: s, replica: replicaID(s.Config.Replicas.ID)}
	return p, p.build(features())
}

// build builds features. After an error it closes the features that are built, and the one that failed.
func (p *App) build(all []feature) error {
	for _, f := range all {
		p.features = append(p.features, f)
		if f.build == nil {
			continue
		}
		if err := f.build(p); err != nil {
			p.Close()
			return err
		}
	}
	return nil
}

// Run serves until ctx ends and everything is drained. Calls that arrive before all features have started wait in the
// backlog of the listener.
func (p *App) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while calls finish
	start, cease := context.WithCancel(ctx)
	w := &work{start: start, serving: serving}
	for _, f := range p.features {
		if f.run != nil {
			f.run(p, w)
		}
	}
	p.log.Info("serving", "listen", p.ports.public.Addr().String(), "admin", p.ports.admin.Addr().String(), "listeners",
		p.addresses(), "fleets", len(p.started.Config.Fleets), "config", p.options.File)
	p.logTenancy(p.started.Config)
	err := p.gateway.Run(ctx, p.ports.public, p.ports.admin)
	for _, f := range w.served {
		f()
	}
	cease()
	stop()
	w.all.Wait()
	p.log.Info("stopped")
	p.Close()
	return err
}

// apply puts a change into effect in all features. After an error no feature has applied it, but those before the one
// that failed keep what they have prepared.
func (p *App) apply(c *change) error {
	for _, f := range p.features {
		if f.prepare != nil {
			if err := f.prepare(p, c); err != nil {
				return err
			}
		}
	}
	for _, f := range p.features {
		if f.apply != nil {
			f.apply(p, c)
		}
	}
	return nil
}

// Close releases what the process has opened.
func (p *App) Close() {
	for i := range p.features {
		if f := p.features[len(p.features)-1-i]; f.close != nil {
			f.close(p)
		}
	}
}
