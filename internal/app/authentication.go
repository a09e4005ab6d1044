package app

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/admin/tenants"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// authentication authenticates callers.
type authentication struct {
	keys      *tenant.Keys   // of the file
	stored    *tenant.Stored // in Redis; nil: no tenants in Redis
	directory *tenant.Directory
	peppered  atomic.Pointer[[]byte] // key of the hashes of secrets
	tokens    *token.Verifier
	certified *tenant.Certificates
	metrics   *telemetry.Metrics
	all       *tenant.Authenticators // nil: callers need no credential; only a restart changes that
	roster    *tenant.Roster         // nil: the gateway has no tenants; the same
}

// authenticationFeature authenticates callers.
func authenticationFeature() feature {
	return feature{
		build: buildAuthentication,
		apply: func(p *App, c *change) {
			if c.reloaded {
				p.auth.set(c.Settings)
			}
		},
		run: func(p *App, w *work) {
			w.watch(p.auth.follow)
			w.loop("bandwidth", func(ctx context.Context) { p.gateway.WatchRates(ctx, p.auth.directory) })
		},
	}
}

func buildAuthentication(p *App) (err error) {
	s, i := p.started, &p.auth
	i.keys, i.metrics = tenant.NewKeys(nil), p.metrics
	cache := s.Config.Cache
	if s.Config.Identity.Stored {
		o := tenant.Options{Entries: cache.Entries, TTL: cache.TTL, MaxStale: cache.MaxStale, Log: p.log}
		i.stored = tenant.NewStored(p.store.Tenants(), o)
		i.directory = i.stored.Directory()
		if p.store.Stats().Embedded {
			p.log.Warn("new tenants and API keys end with this process, and other replicas do not see them: " +
				"identity.store is redis, and redis is embedded")
		}
	} else {
		i.directory = tenant.NewDirectory(nil)
	}
	i.tokens = token.New(i.directory, token.Options{Cache: cache.Entries, Log: p.log})
	i.certified = tenant.NewCertificates(i.directory, nil)
	i.set(s)
	if s.Config.Multi {
		i.roster = &tenant.Roster{Directory: i.directory}
		if i.stored != nil {
			i.roster.Store = p.store.Tenants()
		}
	}
	p.newTenantsAPI()
	if s.Config.Multi {
		i.all = tenant.NewAuthenticators(tenant.Sources{File: i.keys, Stored: i.stored, Tokens: i.tokens,
			Certificates: i.certified, Listeners: tenant.NewListeners(i.directory), Tenants: i.directory})
		if err = p.metrics.Add(i, i.tokens); err != nil {
			return err
		}
	}
	p.parts.Callers.Authenticator = i.authenticator()
	return nil
}

// set applies a new configuration.
func (i *authentication) set(s *settings.Settings) {
	of := s.Tenants()
	i.directory.Replace(of)
	if i.stored != nil {
		i.stored.SetPepper(s.Pepper)
		i.stored.SetLimits(s.Config.Limits)
	}
	i.keys.Replace(s.Keys, of, s.Pepper)
	i.tokens.Replace(s.Issuers)
	i.certified.Replace(s.Config.Certificates)
	i.peppered.Store(&s.Pepper)
	declareLimits(s, i.metrics)
}

func (i *authentication) pepper() []byte { return *i.peppered.Load() }

// authenticator returns the authenticator of callers; nil: callers need no credential.
func (i *authentication) authenticator() authenticate.Authenticator {
	if i.all == nil {
		return nil
	}
	return i.all
}

// follow keeps caches up to date with Redis and with the issuers of tokens until ctx ends.
func (i *authentication) follow(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { i.tokens.Run(ctx) })
	if i.stored != nil {
		all.Go(func() { i.stored.Watch(ctx) })
	}
	if i.all != nil {
		all.Go(func() { i.freeLabels(ctx) })
	}
	all.Wait()
}

// Metrics implements metric.Source.
func (i *authentication) Metrics() *metric.Set {
	m := metric.New("capgate_")
	found := m.Add("identifications_total",
		"Authentications of calls, by kind of credential and result. memory: answered from memory; asked: "+
			"the store or issuer answered; refused: the credential is invalid; away: neither answered, so "+
			"the call was refused.", "kind", "result")
	entries := m.Add("identity_cache_entries",
		"Cached API keys and tenants of Redis, negative entries, and verified tokens.")
	age := m.Add("identity_staleness_seconds",
		"Time since the cache of API keys and tenants was last known to be consistent with Redis.")
	m.Read = func(w metric.Writer) {
		i.all.Each(func(k tenant.Kind, r tenant.Result, n int64) { w.Count(found, n, k.String(), r.String()) })
		cached := i.tokens.Len()
		if i.stored != nil {
			s := i.stored.Stats()
			cached += s.Entries
			w.Gauge(age, s.Age.Seconds())
		}
		w.Gauge(entries, float64(cached))
	}
	return m
}

// logTenancy logs the kinds of credentials in use.
func (p *App) logTenancy(started *config.Config) {
	for _, text := range append(settings.ListenerWarnings(started), started.Warnings()...) {
		p.log.Warn(text)
	}
	if !started.Multi {
		p.log.Info("single-tenant: no credentials are configured, so all callers belong to the tenant " +
			tenant.Default)
		return
	}
	keys := 0
	for i := range started.Tenants {
		keys += len(started.Tenants[i].Keys)
	}
	p.log.Info("callers need a credential", "tenants", len(started.Tenants), "keys", keys, "certificates",
		len(started.Certificates), "redis", started.Identity.Stored, "issuers", len(started.Issuers))
}

// newTenantsAPI creates the service of tenants and API keys.
func (p *App) newTenantsAPI() {
	cfg := tenants.Config{
		Tenants: p.auth.directory, Roster: p.auth.roster, Keys: p.auth.keys, Log: p.log, Audit: p.audit,
		Pepper: p.auth.pepper,
	}
	if p.auth.stored != nil {
		cfg.Store, cfg.Changed = p.store.Tenants(), p.auth.stored.Changed
	}
	api := tenants.New(cfg)
	p.parts.services = append(p.parts.services, api.Operators())
	p.parts.builtins = append(p.parts.builtins, api.Register)
}
