// Package protocols lists the protocols that backends may speak besides Selu's.
package protocols

import (
	engineconfig "github.com/capgate/capgate/gateway/engine/config"
	engineprobe "github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	grpcconfig "github.com/capgate/capgate/gateway/upstream/grpcservice/config"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	mcpconfig "github.com/capgate/capgate/gateway/upstream/mcp/config"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/config"
)

// Protocol is a protocol of backends. The zero value is Selu's: the relay reaches the backends, and Healthcheck probes
// them.
type Protocol struct {
	*config.Protocol // how the configuration writes it

	// Probe returns the health check of backends that the relay reaches, for a value of health.probe.
	Probe func(word string) health.Question
	// Open returns what serves the backends in the process; nil: the relay reaches them over gRPC.
	Open func(upstream.Options) upstream.Backends
	// Read completes a fleet with the content of the files that its settings name. before is the fleet as it was read
	// last; nil: it was not there. It is set with Open.
	Read func(f, before *upstream.Fleet, files upstream.Files) error
}

// All returns the protocols.
func All() []Protocol {
	return []Protocol{
		{Protocol: engineconfig.Protocol(), Probe: engineprobe.Of},
		{Protocol: mcpconfig.Protocol(), Open: mcp.Open, Read: mcp.Read},
		{Protocol: grpcconfig.Protocol(), Open: grpcservice.Open, Read: grpcservice.Read},
	}
}

// Of returns the protocol of a fleet.
func Of(f *config.Fleet) Protocol {
	for _, p := range All() {
		if p.Name == f.Protocol {
			return p
		}
	}
	return Protocol{}
}

// Config returns the protocols as config.Parse takes them.
func Config() (all []*config.Protocol) {
	for _, p := range All() {
		all = append(all, p.Protocol)
	}
	return all
}

// Open opens all protocols whose backends are served in the process.
func Open(o upstream.Options) upstream.Protocols {
	opened := upstream.Protocols{}
	for _, p := range All() {
		if p.Open != nil {
			opened[p.Name] = p.Open(o)
		}
	}
	return opened
}
