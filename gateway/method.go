package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// readMethod finds out which method the path names. A path that is none is not decoded or cleaned, as some backends
// would: the call is refused before anything is done for it.
func (t *transit) readMethod(s *relay.Stream) {
	path := s.Path()
	if e, ok := dialect.Lookup(path); ok {
		t.spoken = e
		t.call.Method, t.call.Dialect, t.call.Service = e.Method, e.Dialect, e.Service
		t.call.Path, _ = dialect.Path(e.Method, e.Dialect)
		return
	}
	t.call.Path = t.keep(path)
	service, _, ok := call.SplitPath(t.call.Path)
	if !ok {
		t.pathless = true
		return
	}
	t.call.Service = service
	t.engine = engine.Lookup(t.call.Path)
}

// hasMethod refuses a call of another method than those of the dialects, unless the fleet lists it: what policy knows
// nothing of reaches no capability by its name alone.
func (t *transit) hasMethod() *call.Refusal {
	if m, lacks := dialect.Lacking(t.call.Path); lacks {
		return lacking(m)
	}
	if t.fleet.HasMethod(t.call.Path) || !dialect.Owns(t.call.Path) && t.fleet.HasService(t.call.Service) {
		return nil
	}
	return refusedUnlisted
}

// wellFormed refuses a call whose path or headers two programs could read differently.
func (t *transit) wellFormed() *call.Refusal {
	switch s := t.stream; {
	case t.pathless:
		return refusedPath
	case s.Repeated() != "":
		return repeatedHeader(s.Repeated())
	case !s.Proto() && (t.call.Method != call.Other || t.engine != nil):
		return refusedContentType
	case s.Contradicts(capabilityHeader):
		return refusedTwoKeys
	}
	return nil
}

func repeatedHeader(name string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "AMBIGUOUS_HEADERS", Metadata: map[string]string{"header": name},
		Message: "the call has the header " + name + " more than once; send it once"}
}

var (
	refusedContentType = &call.Refusal{Kind: call.Unimplemented, Reason: "CONTENT_TYPE_UNSUPPORTED",
		Message: "calls of capabilities and engines have the content-type application/grpc or application/grpc+proto, and nothing after it"}
	refusedPath = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "the path is not that of a gRPC method: it is /package.Service/Method, of letters, digits and underscores"}
	refusedUnlisted = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
		Message: "the capability has no method of this name; services or methods in the configuration of its fleet can list more"}
)
