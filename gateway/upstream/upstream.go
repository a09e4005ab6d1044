package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/health"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// Fleet is a fleet whose backends are served in the process.
type Fleet struct {
	Capability string
	Backends   []string          // host:port, or URLs
	Hosts      map[string]string // by backend, the name that its certificate has; absent: its host
	// nil means cleartext, or the system's authorities for https; unchanged, it is the same pointer
	TLS        *tls.Config
	Headers    map[string]string // of each request to a backend
	Sessions   bool              // each session of a caller has its own session at the backend
	SessionTTL time.Duration     // of one without calls; default 1 h
	Protocol   router.Protocol   // the settings
	Content    any               // of files that the settings name, comparable; unchanged, it is the same pointer
	Warnings   []string          // about that content
}

// Files reads the files that the settings of a fleet name.
type Files interface {
	Read(name string) ([]byte, error)
	// Unchanged reports whether a file is as it was when the fleet was read before.
	Unchanged(name string) bool
	// Wrong returns an error about the content of a file.
	Wrong(name string, err error) error
	// Headers reads headers from a file, and from an environment variable; each may be "". reserved reports the
	// headers that the protocol sets.
	Headers(file, variable string, reserved func(name string) bool) (map[string]string, error)
}

// Options of Backends. The zero value works.
type Options struct {
	Version string       // of the gateway, which backends are told
	Log     *slog.Logger // default: discard
	// Changed is called when the tools of a fleet may have changed. It must not block. Default: no call.
	Changed func(capability string)
	Room    *Room // for sessions of callers; default: no bound
	// Silence is how long a connection to a backend that does not answer probes may bring nothing; default 20 s.
	Silence time.Duration
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	o.Log, o.Room = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Room, &Room{})
	o.Silence = cmp.Or(o.Silence, 20*time.Second)
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	return o
}

// Backends serves the backends of all fleets of one protocol. It is safe for concurrent use.
type Backends interface {
	// Set replaces all fleets. Calls that run at a backend that was removed, or is reached in another way from now on,
	// end first.
	Set(fleets []Fleet)
	// Serve returns the server of a backend, see relay.UpstreamConfig.
	Serve(capability, addr string) func(*relay.ServerStream) relay.Status
	// Probe returns the health check of a fleet's backends.
	Probe(capability string) health.Question
	// Close ends all connections, and waits for that. No call may run.
	Close()
}

// CheckArguments says what is wrong with the arguments of a tool; nil means nothing is known to be.
type CheckArguments func(ctx context.Context, tool string, args []byte) error

// ArgumentChecker is implemented by Backends that check arguments by more rules than a schema can have.
type ArgumentChecker interface {
	// Arguments returns the check for a fleet, for which it may wait until ctx ends; nil means it is not known.
	Arguments(ctx context.Context, capability string) CheckArguments
}

// Checker is implemented by Backends that find out whether the connections to a backend are alive.
type Checker interface {
	// Check ends the connections to a backend that does not answer probes, with their calls, if nothing comes from it.
	// It may be called often, and does not block.
	Check(capability, addr string)
}

// MaxRequest is the longest request of a call, in bytes.
const MaxRequest = 16 << 20

// Serve returns what serves a backend as a capability, see relay.UpstreamConfig.
func Serve(name string, server docpb.CapabilityServer) func(*relay.ServerStream) relay.Status {
	local := &localgrpc.Server{Name: name, MaxMessage: MaxRequest}
	docpb.RegisterCapabilityServer(local, server)
	return local.Serve
}

// Protocols has the Backends of protocols, by the name of each. The relay reaches the backends of others over gRPC.
type Protocols map[string]Backends

// of returns the Backends of a protocol; nil means the relay reaches them.
func (p Protocols) of(of router.Protocol) Backends {
	if of == nil {
		return nil
	}
	return p[of.Traits().Name]
}

// Set replaces all fleets.
func (p Protocols) Set(fleets []Fleet) {
	for _, backends := range p {
		var own []Fleet
		for i := range fleets {
			if p.of(fleets[i].Protocol) == backends {
				own = append(own, fleets[i])
			}
		}
		backends.Set(own)
	}
}

// Serve returns the server of a backend; nil means the relay reaches it over gRPC.
func (p Protocols) Serve(f *router.Fleet, addr string) func(*relay.ServerStream) relay.Status {
	if backends := p.of(f.Protocol()); backends != nil {
		return backends.Serve(f.Capability, addr)
	}
	return nil
}

// SetProbe completes the probe of a fleet, if it has Backends. They use TLS by themselves where they connect by
// themselves.
func (p Protocols) SetProbe(of router.Protocol, probe *health.Fleet) {
	backends := p.of(of)
	if backends == nil {
		return
	}
	probe.Asks = backends.Probe(probe.Capability)
	if _, direct := probe.Asks.(health.Direct); direct {
		probe.TLS = nil
	}
}

// Arguments returns the check of a fleet's arguments, see ArgumentChecker; nil means none.
func (p Protocols) Arguments(ctx context.Context, capability string) CheckArguments {
	for _, backends := range p {
		if checker, is := backends.(ArgumentChecker); is {
			if check := checker.Arguments(ctx, capability); check != nil {
				return check
			}
		}
	}
	return nil
}

// Check checks the connections to a backend, see Checker.
func (p Protocols) Check(capability, addr string) {
	for _, backends := range p {
		if checker, is := backends.(Checker); is {
			checker.Check(capability, addr)
		}
	}
}

// Close ends all connections.
func (p Protocols) Close() {
	for _, backends := range p {
		backends.Close()
	}
}
