package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

func TestParseAffinity(t *testing.T) {
	t.Parallel()
	standard := router.Affinity{Artifacts: true, SessionTTL: time.Hour, ArtifactTTL: 24 * time.Hour}
	with := func(change func(*router.Affinity)) router.Affinity {
		a := standard
		change(&a)
		return a
	}
	sessions := with(func(a *router.Affinity) { a.Sessions = true })
	for fields, want := range map[string]struct {
		class    call.Class
		affinity router.Affinity
	}{
		"":                                   {call.Tool, standard},
		"class: tool":                        {call.Tool, standard},
		"class: environment":                 {call.Environment, sessions},
		"affinity: session":                  {call.Tool, sessions},
		"affinity: none, class: environment": {call.Environment, standard},
		"artifacts: shared":                  {call.Tool, with(func(a *router.Affinity) { a.Artifacts = false })},
		"artifacts: own":                     {call.Tool, standard},
		"session_ttl: 10s, artifact_ttl: 720h": {call.Tool, with(func(a *router.Affinity) {
			a.SessionTTL, a.ArtifactTTL = 10*time.Second, 720*time.Hour
		})},
	} {
		t.Run(fields, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse("f", fmt.Appendf(nil, "fleets: [{capability: a, backends: ['b:1'], %s}]", fields))
			check.Must(t, err)
			if f := cfg.Fleets[0]; f.Class != want.class || f.Affinity != want.affinity {
				t.Errorf("%v, %+v", f.Class, f.Affinity)
			}
		})
	}
}

func TestParseSessionOfABackend(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("f", []byte("fleets: [{capability: a, backends: [{addr: 'b:1', session: s-1}, 'c:1']}]"))
	check.Must(t, err)
	if b := cfg.Fleets[0].Backends; b[0].Session != "s-1" || b[1].Session != "" {
		t.Errorf("%+v", b)
	}
}

func TestParseTenantOfASession(t *testing.T) {
	t.Parallel()
	const where = "f:2: fleets[0].backends[0].tenant: "
	for text, want := range map[string]string{
		"tenants: [{id: acme, capabilities: []}]\nfleets: [{capability: a, backends: [{addr: 'b:1', session: s, " +
			"tenant: acme}, {addr: 'dns:///c:1', session: s, tenant: acme}]}]": "",
		"identity: {store: redis}\nfleets: [{capability: a, backends: [{addr: 'b:1', session: s, tenant: later}, " +
			"{addr: 'dns:///c:1', session: s, tenant: acme}]}]": "",
		"tenants: []\nfleets: [{capability: a, backends: [{addr: 'b:1', session: s}]}]": where +
			"required: the tenant of the session",
		"tenants: []\nfleets: [{capability: a, backends: [{addr: 'b:1', session: s, tenant: acme}]}]": where +
			"there is no tenant acme",
		"listen: ':1'\nfleets: [{capability: a, backends: [{addr: 'b:1', session: s, tenant: acme}]}]": where +
			"the file has no tenants",
		"tenants: []\nfleets: [{capability: a, backends: [{addr: 'b:1', tenant: acme}]}]": where +
			"is the tenant of the session",
		"tenants: []\nfleets: [{capability: a, backends: [{addr: 'b:1', session: s, tenant: 'a b'}]}]": where +
			`"a b" is not a tenant`,
		"tenants: []\nfleets: [{capability: a, backends: [{addr: 'dns:///b:1', session: s}]}]": where +
			"required: the tenant of the session",
	} {
		cfg, err := config.Parse("f", []byte(text))
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case cfg.Fleets[0].Backends[0].Tenant == "" || cfg.Fleets[0].Names[0].Tenant != "acme":
			t.Errorf("%+v", cfg.Fleets[0])
		}
	}
}

func TestParseAffinityErrors(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"class: thing":         `f:1: fleets[0].class: "thing" is not possible; it must be tool or environment`,
		"affinity: sticky":     `f:1: fleets[0].affinity: "sticky" is not possible; it must be none or session`,
		"artifacts: elsewhere": `f:1: fleets[0].artifacts: "elsewhere" is not possible; it must be own or shared`,
		"session_ttl: 1s":      `f:1: fleets[0].session_ttl: "1s" is not possible; it must be a duration from 10s`,
		"artifact_ttl: 1000h":  `f:1: fleets[0].artifact_ttl: "1000h" is not possible; it must be a duration from 10s`,
		"session_ttl: 1":       `f:1: fleets[0].session_ttl: "1" is not possible; it must be a duration from 10s to 720h, as in`,
		"backends: [{addr: 'b:1', session: '" + strings.Repeat("s", 513) +
			"'}]": `f:1: fleets[0].backends[0].session: has more than 512 bytes`,
	} {
		file := "fleets: [{capability: a, backends: ['b:1'], " + fields + "}]"
		if strings.HasPrefix(fields, "backends") {
			file = "fleets: [{capability: a, " + fields + "}]"
		}
		if _, err := config.Parse("f", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", fields, err)
		}
	}
}
