package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/settings"
)

// operators authenticates users of the admin API.
type operators struct {
	keys      *guard.Keys
	certified *guard.Certificates
	tokens    *guard.Tokens
	guard     *guard.Guard
	secure    atomic.Pointer[tls.Config] // TLS in force; nil: cleartext
	token     string                     // printed at the start; "" if there is none
	forget    func()                     // removes the file with the token; nil if there is none
}

// operatorsFeature authenticates operators, and people that sign in with a browser.
func operatorsFeature() feature {
	return feature{
		build: buildOperators,
		apply: func(p *App, c *change) {
			if c.reloaded {
				p.operators.set(c.Settings)
				p.persons.set(c.Settings)
			}
		},
		run: func(p *App, w *work) {
			p.persons.sessions.Read(w.start) // no revoked session is good
			w.watch(p.persons.sessions.Run)
		},
		close: func(p *App) { p.operators.close() },
	}
}

// buildOperators fails where other machines could use the admin API without a credential.
func buildOperators(p *App) error {
	s, o := p.started, &p.operators
	o.keys, o.certified, o.tokens = guard.NewKeys(nil), guard.NewCertificates(nil), guard.NewTokens(p.auth.tokens)
	cfg := guard.Config{Client: p.operatorAddr, Insecure: s.Config.Operators.Insecure,
		Authenticators: []guard.Authenticator{o.keys, o.certified, o.tokens}}
	if !cfg.Insecure && !s.Config.Authenticates() {
		if err := p.newStartToken(&cfg); err != nil {
			return err
		}
	}
	p.newPersons(s, &cfg)
	if p.auth.all != nil { // last, because it takes any bearer credential
		cfg.Authenticators = append(cfg.Authenticators, guard.NewTenants(p.auth.all))
	}
	o.guard = guard.New(cfg)
	o.set(s)
	p.parts.Admin.Guard, p.parts.Admin.TLS = o.guard, p.adminTLSConfig()
	p.parts.Doors.Inbox = p.persons.inbox
	p.parts.mounts = append(p.parts.mounts, p.persons.admin.Mount)
	p.parts.services = append(p.parts.services, p.persons.admin.Service())
	return nil
}

// adminTLSConfig returns the TLS settings of the admin API. Its certificates follow the configuration; nil: cleartext.
func (p *App) adminTLSConfig() *tls.Config {
	if p.operators.secure.Load() == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return p.operators.secure.Load().GetConfigForClient(hello)
		}}
}

// newStartToken makes the token of an admin API for this machine alone.
func (p *App) newStartToken(cfg *guard.Config) error {
	addr := p.ports.admin.Addr().String()
	if at, ok := p.ports.admin.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("admin: other machines reach %s, and the configuration does not say who may use the admin "+
			"API; name operators (docs/run/operators.md), or listen on 127.0.0.1, or let it need no credential with "+
			"operators: {insecure: true}, --admin-insecure or CAPGATE_ADMIN_INSECURE=1", addr)
	}
	p.operators.token = operator.NewStartToken()
	cfg.Start = guard.NewStartToken(p.operators.token)
	cfg.Authenticators = append(cfg.Authenticators, cfg.Start)
	var err error
	if p.operators.forget, err = operator.WriteStartToken(p.options.RuntimeDir, addr, p.operators.token); err != nil {
		p.log.Warn("commands on this machine will not find the start token of the admin API", "error", err)
	}
	return nil
}

// set applies a new configuration.
func (o *operators) set(s *settings.Settings) {
	o.keys.Replace(s.OperatorKeys, s.Pepper)
	o.certified.Replace(s.Config.Operators.Certificates)
	o.tokens.Replace(s.Config.Operators.People)
	o.guard.OpenMetrics(s.Config.Operators.OpenMetrics)
	if s.AdminTLS != nil {
		o.secure.Store(s.AdminTLS)
	}
}

func (o *operators) close() {
	if o.forget != nil {
		o.forget()
	}
}
