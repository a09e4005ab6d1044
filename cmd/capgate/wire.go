package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/router"
)

// process is everything that a serving capgate consists of, built bottom to top.
type process struct {
	cfg       *config.Config
	log       *slog.Logger
	accessLog *observe.AccessLog
	prober    *health.Prober
	firstLook *firstLook
	ejections ejections
	gateway   *gateway.Gateway
	public    net.Listener
	admin     net.Listener
}

// build makes a process that listens but does not serve yet. It logs to w.
func build(cfg *config.Config, w io.Writer) (p *process, err error) {
	p = &process{cfg: cfg, log: newLogger(cfg.Log, w), ejections: newEjections()}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.public, err = listen("listen", cfg.Listen); err != nil {
		return p, err
	}
	if p.admin, err = listen("admin", cfg.Admin); err != nil {
		return p, err
	}
	p.accessLog = observe.NewAccessLog(w, observe.AccessLogConfig{Level: cfg.Log.Level, Text: cfg.Log.Format == "text"})
	v, c, _ := buildInfo()
	metrics, err := observe.NewMetrics(prometheus.NewRegistry(), observe.MetricsConfig{Version: v, Revision: c, Log: p.accessLog})
	if err != nil {
		return p, fmt.Errorf("metrics: %w", err)
	}
	secure, err := backendsTLS(cfg)
	if err != nil {
		return p, err
	}
	table, err := router.NewTable(routes(cfg, p.ejections), nil)
	if err != nil {
		return p, err
	}
	routing := router.New(table)
	fleets := probes(cfg, secure)
	p.firstLook = newFirstLook(fleets)
	p.prober = health.New(fleets, health.Options{Logger: p.log, Changed: func(s *health.Snapshot) {
		routing.SetHealth(s)
		p.firstLook.see(s)
	}})
	server, err := serverTLS(cfg.TLS)
	if err != nil {
		return p, err
	}
	p.gateway, err = gateway.New(gateway.Config{
		Relay:      relay.Config{TLS: server, Log: p.log},
		Identifier: single{},
		Decider:    policy.New(),
		Router:     routing,
		Metrics:    metrics,
		Recorder:   observe.NewRecorder(metrics, p.accessLog),
		BackendTLS: func(capability string) *tls.Config { return secure[capability] },
		Drain:      gateway.Drain{Delay: cfg.Drain.Delay, Timeout: cfg.Drain.Timeout},
		Log:        p.log,
	})
	return p, err
}

// run serves until ctx ends and everything is drained. Calls that come before the
// first look at the backends is over wait in the listener's backlog.
func (p *process) run(ctx context.Context) error {
	probing, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while calls finish
	var watchers sync.WaitGroup
	watchers.Go(func() { p.prober.Run(probing) })
	watchers.Go(func() { p.ejections.run(probing, p.log) })
	p.firstLook.wait(ctx)
	p.log.Info("serving", "listen", p.public.Addr().String(), "admin", p.admin.Addr().String(), "fleets", len(p.cfg.Fleets))
	p.log.Info("single-tenant: no credentials are configured, so every caller is the tenant " + tenant.Default)
	err := p.gateway.Run(ctx, p.public, p.admin)
	stop()
	watchers.Wait()
	p.log.Info("stopped")
	p.close()
	return err
}

func (p *process) close() {
	for _, ln := range []net.Listener{p.public, p.admin} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	if p.accessLog != nil {
		_ = p.accessLog.Close()
	}
}

// listen opens one of the two ports, and says what to do when it is taken.
func listen(field, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another program: choose another with --%s HOST:PORT", addr, field)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w (choose another with --%s HOST:PORT)", field, addr, err, field)
	}
	return ln, nil
}

func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// single lets the gateway ask a tenancy that looks at nothing of the stream.
type single struct{ tenant.Single }

func (s single) Identify(*relay.Stream) (string, *call.Refusal) { return s.Single.Identify() }

func backendsTLS(cfg *config.Config) (map[string]*tls.Config, error) {
	secure := map[string]*tls.Config{}
	for i := range cfg.Fleets {
		t, err := backendTLS(&cfg.Fleets[i])
		if err != nil {
			return nil, err
		}
		secure[cfg.Fleets[i].Capability] = t
	}
	return secure, nil
}

func routes(cfg *config.Config, ejected ejections) router.Config {
	r := router.Config{Domains: cfg.Domains, Zone: cfg.Zone, Ejected: ejected.tell}
	for i := range cfg.Fleets {
		f := &cfg.Fleets[i]
		r.Fleets = append(r.Fleets, router.FleetConfig{
			Capability: f.Capability, Services: f.Services, Backends: backends(f), Dialect: f.Dialect,
			Deadlines: router.Deadlines{Default: f.Deadline.Default, Max: f.Deadline.Max, Stream: f.Deadline.Stream},
			Ejection: router.Ejection{
				Failures: orNone(f.Ejection.Failures), ConnectFailures: orNone(f.Ejection.ConnectFailures),
				TimeoutLeast: f.Ejection.TimeoutLeast, Base: f.Ejection.Base, Max: f.Ejection.Max,
			},
			Retries:   router.Retries{Share: orNone(f.Retry.Share), Floor: orNone(f.Retry.Floor)},
			SlowStart: orNone(f.SlowStart),
		})
	}
	return r
}

func backends(f *config.Fleet) []router.BackendConfig {
	var all []router.BackendConfig
	for _, b := range f.Backends {
		all = append(all, router.BackendConfig{Addr: b.Addr, Weight: orNone(b.Weight), Zone: b.Zone})
	}
	return all
}

// orNone turns the file's 0, which has its defaults filled in, into what the router
// takes for none, where 0 is the default.
func orNone[T int | float64 | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

func probes(cfg *config.Config, secure map[string]*tls.Config) []health.Fleet {
	var fleets []health.Fleet
	for i := range cfg.Fleets {
		f := &cfg.Fleets[i]
		fleets = append(fleets, health.Fleet{
			Capability: f.Capability, Backends: f.Addrs(), Dialect: f.Dialect, TLS: secure[f.Capability],
			Config: health.Config{
				Interval: f.Health.Interval, Timeout: f.Health.Timeout, Jitter: f.Health.Jitter,
				Rise: f.Health.Rise, Fall: f.Health.Fall,
			},
		})
	}
	return fleets
}
