package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/assertion"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// Fleet is a fleet whose backends are served in the process.
type Fleet struct {
	Capability string
	Backends   []string          // host:port, or URLs
	Hosts      map[string]string // by backend: name in its certificate; the default is its host
	// TLS configures TLS; nil means cleartext, or the system's certificate authorities for https. As long as it is
	// unchanged, the pointer stays the same.
	TLS        *tls.Config
	Headers    map[string]string // added to each request to a backend
	Sessions   bool              // each session of a caller has its own session at the backend
	SessionTTL time.Duration     // of a session without calls; default 1 h
	Protocol   router.Protocol   // settings
	Assertion  *router.Assertion // nil means backends receive none
	Content    any               // content of files named by the settings; comparable; if unchanged, the same pointer
	Warnings   []string          // warnings about that content
}

// Files reads the files named by the settings of a fleet.
type Files interface {
	Read(name string) ([]byte, error)
	// Unchanged reports whether a file is unchanged since the fleet was last read.
	Unchanged(name string) bool
	// Wrong returns an error about the content of a file.
	Wrong(name string, err error) error
	// Headers reads headers from a file, which may be "". reserved reports the headers that the protocol sets.
	Headers(file string, reserved func(name string) bool) (map[string]string, error)
}

// Options configures Backends. The zero value is valid.
type Options struct {
	Version string       // version of the gateway, which is sent to backends
	Log     *slog.Logger // nil means records are discarded
	// Changed is called when the tools of a fleet may have changed. It must not block. It is optional.
	Changed func(capability string)
	Room    *Room // for sessions of callers; nil means no limit
	// Sign signs assertions. If nil, requests of fleets with assertions fail.
	Sign assertion.Sign
	// Logins has the logins of operators at servers; nil means that no operator can log in.
	Logins *logins.Logins
	// Questions holds calls whose clients answer questions of backends; nil means none.
	Questions *questions.Calls
	// Sessions shares the sessions of callers at backends; nil means that each replica has its own.
	Sessions *sessions.Shared
	// Silence is the time without received data after which connections to a backend that does not answer probes are
	// closed; default 20 s.
	Silence time.Duration
}

// withDefaults sets the defaults.
func (o Options) withDefaults() Options {
	o.Log, o.Room = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Room, &Room{})
	o.Silence = cmp.Or(o.Silence, 20*time.Second)
	if o.Sign == nil {
		o.Sign = func(string, *assertion.Caller) (string, error) { return "", assertion.ErrNoKey }
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	return o
}

// Backends serves the backends of all fleets of one protocol. It is safe for concurrent use.
type Backends interface {
	// Set replaces all fleets. Calls in flight at a backend that was removed, or whose settings have changed, finish
	// first.
	Set(fleets []Fleet)
	// Serve returns the server of a backend, see relay.UpstreamConfig.
	Serve(capability, addr string) func(*relay.ServerStream) relay.Status
	// Probe returns the health check of a fleet's backends.
	Probe(capability string) health.Question
	// Close closes all connections and waits for their end. No call may be running.
	Close()
}

// CheckArguments checks the arguments of a tool. It returns nil if no error is known.
type CheckArguments func(ctx context.Context, tool string, args []byte) error

// ArgumentChecker is implemented by Backends with rules for arguments that a schema cannot express.
type ArgumentChecker interface {
	// Arguments returns the check for a fleet; nil means unknown. It may wait until ctx ends.
	Arguments(ctx context.Context, capability string) CheckArguments
}

// Checker is implemented by Backends that can verify the connections to a backend.
type Checker interface {
	// Check closes the connections to a backend that does not answer probes, with their calls, unless data is
	// received. It may be called often, and does not block.
	Check(capability, addr string)
}

// MaxRequest is the maximum size of a call's request, in bytes.
const MaxRequest = 16 << 20

// Serve returns the function that serves a backend as a capability, see relay.UpstreamConfig.
func Serve(name string, server docpb.CapabilityServer) func(*relay.ServerStream) relay.Status {
	local := &localgrpc.Server{Name: name, MaxMessage: MaxRequest}
	docpb.RegisterCapabilityServer(local, server)
	return local.Serve
}

// Protocols maps the names of protocols to their Backends. The relay reaches backends of other protocols over gRPC.
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

// SetProbe completes the probe of a fleet with Backends. They configure TLS themselves if they connect themselves.
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

// Close closes all connections.
func (p Protocols) Close() {
	for _, backends := range p {
		backends.Close()
	}
}
