package status_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// registered keeps a registered service.
type registered struct{ desc *grpc.ServiceDesc }

func (r *registered) RegisterService(desc *grpc.ServiceDesc, _ any) { r.desc = desc }

// TestErrorsOfServices: refusals and, by the fault of a service, other errors become statuses; statuses stay as they
// are.
func TestErrorsOfServices(t *testing.T) {
	t.Parallel()
	errAway := errors.New("away")
	missing := &call.Refusal{Kind: call.NotFound, Reason: "MISSING"}
	fault := func(err error) *call.Refusal {
		if errors.Is(err, errAway) {
			return &call.Refusal{Kind: call.Unavailable, Reason: "AWAY"}
		}
		return nil
	}
	for name, test := range map[string]struct {
		err    error
		fault  func(error) *call.Refusal
		code   codes.Code
		reason string
	}{
		"no error":                    {nil, fault, codes.OK, ""},
		"a refusal":                   {missing, nil, codes.NotFound, "MISSING"},
		"a refusal, and a fault":      {missing, fault, codes.NotFound, "MISSING"},
		"an error that a fault knows": {errAway, fault, codes.Unavailable, "AWAY"},
		"an error without a fault":    {errAway, nil, codes.Unknown, ""},
		"an error of another kind":    {errors.ErrUnsupported, fault, codes.Unknown, ""},
		"a status":                    {grpcstatus.Error(codes.Aborted, "x"), fault, codes.Aborted, ""},
	} {
		var g registered
		of := &grpc.ServiceDesc{
			Methods: []grpc.MethodDesc{{Handler: func(any, context.Context, func(any) error,
				grpc.UnaryServerInterceptor) (any,
				error) {
				return nil, test.err
			}}},
			Streams: []grpc.StreamDesc{{Handler: func(any, grpc.ServerStream) error { return test.err }}},
		}
		status.Registrar(&g, test.fault).RegisterService(of, nil)
		_, unary := g.desc.Methods[0].Handler(nil, t.Context(), nil, nil)
		for _, err := range []error{unary, g.desc.Streams[0].Handler(nil, stream{ctx: t.Context()})} {
			if grpcstatus.Code(err) != test.code || status.InfoOf(err).GetReason() != test.reason {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := of.Methods[0].Handler(nil, t.Context(), nil, nil); !errors.Is(err, test.err) {
			t.Errorf("%s: the description of the service was changed: %v", name, err)
		}
	}
}

// stream is a stream without messages.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }
