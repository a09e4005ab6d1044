package protocols_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
)

// parse reads a configuration that may have engines.
func parse(text string) (*config.Config, error) {
	of := protocols.Of(&config.Fleet{ProtocolName: engine.Name})
	return config.Parse("f", []byte(text), &of.Protocol)
}

// TestEngines: fleets of engines have the fields of the file.
func TestEngines(t *testing.T) {
	t.Parallel()
	got, err := parse(`
fleets:
  - {capability: plain, protocol: openparallax, backends: ['a:1']}
  - capability: all
    engine: {agent: last-wins, shutdown: true, session_modes: {clients: seed, engines: source}}
    health: {probe: shield}
    session_ttl: 1h
    protocol: openparallax
    backends: ['a:2']
  - {capability: weather, protocol: selu, backends: ['a:1']}
`)
	check.Must(t, err)
	want := []*engine.Settings{{}, {LastWins: true, Shutdown: true, Modes: engine.Modes{Clients: engine.BySeed}}}
	for i, settings := range want {
		if f := got.Fleets[i]; !reflect.DeepEqual(f.Protocol, settings) || f.ProtocolName != "openparallax" {
			t.Errorf("%s: %q, %+v, want %+v", f.Capability, f.ProtocolName, f.Protocol, settings)
		}
	}
	plain, all, weather := got.Fleets[0], got.Fleets[1], got.Fleets[2]
	if plain.Affinity.SessionTTL != 720*time.Hour || !plain.Affinity.Sessions || plain.Affinity.Artifacts ||
		plain.Policy != call.Allow {
		t.Errorf("an engine keeps its sessions: %+v, %v", plain.Affinity, plain.Policy)
	}
	if all.Affinity.SessionTTL != time.Hour || all.Health.Probe != "shield" {
		t.Errorf("%v, %q", all.Affinity.SessionTTL, all.Health.Probe)
	}
	if weather.ProtocolName != "selu" || weather.Protocol != nil {
		t.Errorf("%q, %v", weather.ProtocolName, weather.Protocol)
	}
}

// TestErrorsOfEngines: a mistake in a fleet of engines is named with its place.
func TestErrorsOfEngines(t *testing.T) {
	t.Parallel()
	const an = "fleets: [{capability: e, backends: ['a:1'], protocol: openparallax"
	for name, test := range map[string]struct{ file, want string }{
		"another protocol": {"fleets: [{capability: e, backends: ['a:1'], protocol: mcp}]",
			`f:1: fleets[0].protocol: "mcp" is not possible; it must be selu or openparallax`},
		"engine of another": {"fleets: [{capability: e, backends: ['a:1'], engine: {shutdown: true}}]",
			"f:1: fleets[0].engine: is only for fleets with protocol: openparallax"},
		"probe of another": {"fleets: [{capability: e, backends: ['a:1'], health: {probe: status}}]",
			"f:1: fleets[0].health.probe: is only for fleets with protocol: openparallax"},
		"probe": {an + ", health: {probe: ping}}]",
			`f:1: fleets[0].health.probe: "ping" is not possible; it must be status or shield`},
		"dialect": {an + ", dialect: live}]", "f:1: fleets[0].dialect: has no effect with protocol: openparallax"},
		"agent": {an + ", engine: {agent: both}}]",
			`f:1: fleets[0].engine.agent: "both" is not possible; it must be first-wins or last-wins`},
		"numbering": {an + ", engine: {session_modes: {clients: x}}}]",
			`f:1: fleets[0].engine.session_modes.clients: "x" is not possible; it must be source or seed`},
		"removed field": {an + ", engine: {buffer: 1KiB}}]",
			"f:1: fleets[0].engine.buffer: this field was removed; leave it out"},
		"two fleets": {an + "}, {capability: f, protocol: openparallax, backends: ['a:1']}]",
			"f:1: fleets[1].backends: a:1 is already an engine of the fleet e"},
		"unknown field": {an + ", engine: {agents: 2}}]", "f:1: fleets[0].engine.agents: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestSettingsOfAnotherProtocol: the settings of each protocol are an error for fleets of each other.
func TestSettingsOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	blocks := map[string]string{"openparallax": "engine: {}", "mcp": "mcp_server: {}",
		"grpc": "grpc_service: {methods: [a.B/C]}"}
	for its, own := range blocks {
		for other, block := range blocks {
			if its == other {
				continue
			}
			for _, settings := range []string{block, own + ", " + block, block + ", " + own} {
				_, err := config.Parse("f", []byte("fleets: [{capability: f, backends: ['https://a'], protocol: "+its+
					", "+settings+"}]"), protocols.Config()...)
				if want := "is only for fleets with protocol: " + other; err == nil ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("%s with %s: %v, want %s", its, settings, err, want)
				}
			}
		}
	}
}
