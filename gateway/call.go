package gateway

import (
	"sync"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/affinity"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/filter/bandwidth"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/filter/idempotency"
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/filter/overload"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/filter/pick"
	"github.com/capgate/capgate/gateway/filter/protocol"
	"github.com/capgate/capgate/gateway/filter/ratelimit"
	"github.com/capgate/capgate/gateway/filter/ready"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/filter/warm"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// callState is a call while it passes: what its filters share, and the state of each. It is the Value of the call's
// stream, belongs to it from Headers to Done, and is used again after that.
type callState struct {
	filter.Call
	walk walk // along the filters

	authenticate authenticate.State
	open         open.State
	overload     overload.State
	bandwidth    bandwidth.State
	peek         peek.State
	idempotency  idempotency.State
	ratelimit    ratelimit.State
	authorize    authorize.State
	retry        retry.State
	pick         pick.State
	forward      forward.State
	affinity     affinity.State
	ready        ready.State
	warm         warm.State
	protocol     protocol.State
}

type callPool struct{ pool sync.Pool }

// get begins a call: what its headers say, in strings that outlive them.
func (p *callPool) get(s *relay.Stream) *callState {
	t, _ := p.pool.Get().(*callState)
	if t == nil {
		t = &callState{}
	}
	s.Value, t.Stream = t, relayed{s}
	t.readMethod(s.Path())
	if id, ok := s.Header(filter.RequestIDHeader); ok {
		t.RequestID = t.Keep(id)
	}
	return t
}

func (p *callPool) put(t *callState) {
	t.Reset()
	*t = callState{Call: t.Call, forward: t.forward.Keep()}
	p.pool.Put(t)
}

func callOf(s *relay.Stream) *callState { return s.Value.(*callState) }

// readMethod finds out which method the path names. A path that is none is not decoded or cleaned, as some backends
// would: the call has no service then, and is rejected before anything is done for it.
func (t *callState) readMethod(path string) {
	if e, ok := dialect.Lookup(path); ok {
		t.Spoken = e
		t.Info.Method, t.Info.Dialect, t.Info.Service = e.Method, e.Dialect, e.Service
		t.Info.Path, _ = dialect.Path(e.Method, e.Dialect)
		return
	}
	t.Info.Path = t.Keep(path)
	service, _, ok := call.SplitPath(t.Info.Path)
	if !ok {
		return
	}
	t.Info.Service = service
}
