package grpcservice

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/semaphore"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Options of Services. The zero value works.
type Options struct {
	Log *slog.Logger // default: discard
	// Changed is told that the tools of a fleet may have changed. It must not block. Default: not told.
	Changed func(capability string)
}

// Fleet is a fleet of gRPC services.
type Fleet struct {
	Capability  string
	Backends    []string          // host:port
	Hosts       map[string]string // by backend, the name that its certificate has; absent: its host
	TLS         *tls.Config       // nil: cleartext; unchanged, it is the same pointer
	Methods     []string          // package.Service/Method or package.Service/*
	ToolNames   ToolNames
	Definitions *Definitions      // nil: by server reflection; unchanged, it is the same pointer
	Headers     map[string]string // metadata of each call
	MaxMessage  int               // bytes of a message; default 4 MiB
}

// same says whether two fleets have the same tools and calls of both reach a backend in the same way.
func (f *Fleet) same(o *Fleet) bool {
	return f.TLS == o.TLS && f.MaxMessage == o.MaxMessage && f.Definitions == o.Definitions &&
		f.ToolNames == o.ToolNames && slices.Equal(f.Methods, o.Methods) && maps.Equal(f.Headers, o.Headers) &&
		maps.Equal(f.Hosts, o.Hosts)
}

// metadata is what each call has.
func (f *Fleet) metadata() metadata.MD { return metadata.New(f.Headers) }

// Services are the backends of all fleets. They are safe for concurrent use.
type Services struct {
	opts Options
	work *semaphore.Semaphore // of the CPU work of discoveries, by fleet

	mu       sync.Mutex
	fleets   map[string]*Fleet
	backends map[backendKey]*backend
	closed   bool
	closing  sync.WaitGroup // of connections
}

const (
	atOnce     = 2   // discoveries that compile descriptors; a fleet has one of them at most
	maxWaiting = 100 // discoveries of a fleet that wait for that; one of a backend at most
)

type backendKey struct{ capability, addr string }

// New returns Services without a fleet.
func New(o Options) *Services {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	return &Services{opts: o, work: semaphore.New(atOnce, maxWaiting), fleets: map[string]*Fleet{}, backends: map[backendKey]*backend{}}
}

// Set replaces all fleets. Calls that run at a backend that is no more, or is reached in another way from now on, end
// first.
func (s *Services) Set(fleets []Fleet) {
	s.mu.Lock()
	before := s.fleets
	s.fleets = make(map[string]*Fleet, len(fleets))
	var changed []string
	for i := range fleets {
		f := fleets[i]
		f.MaxMessage = cmp.Or(f.MaxMessage, 4<<20)
		if old := before[f.Capability]; old != nil && !old.same(&f) {
			changed = append(changed, f.Capability)
		}
		s.fleets[f.Capability] = &f
	}
	for key, b := range s.backends {
		f := s.fleets[key.capability]
		if f == nil || !slices.Contains(f.Backends, key.addr) || !b.fleet.same(f) {
			delete(s.backends, key)
			s.retire(b)
		}
	}
	s.mu.Unlock()
	for _, capability := range changed {
		s.opts.Changed(capability)
	}
}

// Close ends all connections, and waits for that. No call may run.
func (s *Services) Close() {
	s.mu.Lock()
	s.closed = true
	for key, b := range s.backends {
		delete(s.backends, key)
		s.retire(b)
	}
	s.mu.Unlock()
	s.closing.Wait()
}

func (s *Services) retire(b *backend) { s.closing.Go(b.retire) }

// backend returns one that may be used until release is called; nil: there is none, as the fleet has changed.
func (s *Services) backend(capability, addr string) (_ *backend, release func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fleets[capability]
	if f == nil || s.closed || !slices.Contains(f.Backends, addr) {
		return nil, nil, errGone
	}
	key := backendKey{capability, addr}
	one := s.backends[key]
	if one == nil {
		var err error
		if one, err = newBackend(s.opts, s.work, f, addr); err != nil {
			return nil, nil, err
		}
		s.backends[key] = one
	}
	one.running.Add(1)
	return one, one.running.Done, nil
}

// fleet returns a fleet; nil: there is none.
func (s *Services) fleet(capability string) *Fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleets[capability]
}

// Serve returns what answers the calls for a backend in its place, see relay.UpstreamConfig.
func (s *Services) Serve(capability, addr string) func(*relay.ServerStream) relay.Status {
	local := &localgrpc.Server{Name: "grpc service", MaxMessage: maxRequest}
	docpb.RegisterCapabilityServer(local, &capabilityServer{services: s, capability: capability, addr: addr})
	return local.Serve
}

// maxRequest is the longest request of a call, in bytes.
const maxRequest = 16 << 20
