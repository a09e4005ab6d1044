package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// hasMethod refuses a call of another method than those of the dialects, unless the fleet lists it: what policy knows
// nothing of reaches no capability by its name alone.
func hasMethod(t *filter.Call) *call.Refusal {
	if m, lacks := dialect.Lacking(t.Info.Path); lacks {
		return lacking(m)
	}
	if t.Fleet.HasMethod(t.Info.Path) || !dialect.Owns(t.Info.Path) && t.Fleet.HasService(t.Info.Service) {
		return nil
	}
	return refusedUnlisted
}

// wellFormed rejects a call whose path or headers two programs could read differently.
// Its messages are of protobuf.
func wellFormed(t *filter.Call) *call.Refusal { return wellFormedAs(t, true) }

// wellFormedAny is wellFormed for calls whose messages may have any encoding.
func wellFormedAny(t *filter.Call) *call.Refusal { return wellFormedAs(t, false) }

func wellFormedAs(t *filter.Call, proto bool) *call.Refusal {
	switch s := t.Stream; {
	case t.Info.Service == "":
		return refusedPath
	case s.Repeated() != "":
		return repeatedHeader(s.Repeated())
	case proto && !s.Proto():
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
