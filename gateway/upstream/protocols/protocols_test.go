package protocols_test

import (
	"testing"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/router"
)

// TestProtocols: rows and settings agree on names, and a row determines how backends are dialed, probed and read.
func TestProtocols(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, p := range protocols.All() {
		settings := p.New()
		if name := settings.Traits().Name; name != p.Name || names[name] || settings.Traits().Dialects {
			t.Errorf("%s: the settings have the name %s", p.Name, name)
		}
		names[p.Name] = true
		if (p.Open == nil) != (p.Read == nil) || (p.Open == nil) == (p.Probe == nil) ||
			(len(p.Probes) > 0) != (p.Probe != nil) {
			t.Errorf("%s: the row lacks a function, or has one that is not called", p.Name)
		}
		if of := protocols.Of(&config.Fleet{ProtocolName: p.Name,
			FleetConfig: router.FleetConfig{Protocol: settings}}); of.Name != p.Name {
			t.Errorf("%s: a fleet has the protocol %s", p.Name, of.Name)
		}
	}
	if of := protocols.Of(&config.Fleet{ProtocolName: "selu"}); of.Name != "" || of.New != nil {
		t.Errorf("a fleet of Selu's has the protocol %s", of.Name)
	}
}
