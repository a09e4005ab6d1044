package registration

import (
	"context"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/gateway/rest"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxRequest bounds a request, in bytes.
const maxRequest = 16 << 10

// Registry keeps registrations. Its errors are *call.Refusal.
type Registry interface {
	Register(ctx context.Context, g registry.Registration) (registry.Registration, error)
	Withdraw(ctx context.Context, key registry.Key, lease string) error
}

// Config is what an API is made of. All of it is required.
type Config struct {
	Registry   Registry
	Status     func(*call.Refusal) *status.Status // the gateway's table of gRPC codes for refusals
	HTTPStatus func(codes.Code) int               // and that of HTTP statuses for these
}

// API takes registrations. It is safe for concurrent use and has nothing to close.
type API struct {
	grpc *grpc.Server
	json http.Handler
}

// New makes an API.
func New(cfg Config) (*API, error) {
	s := &server{registry: cfg.Registry, status: cfg.Status}
	a := &API{grpc: grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest))}
	capgatepb.RegisterRegistryServer(a.grpc, s)
	reflection.Register(a.grpc)
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{UseProtoNames: true}}),
		runtime.WithErrorHandler(cfg.failed),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(), // a form is JSON here: what curl -d sends
	)
	if err := capgatepb.RegisterRegistryHandlerServer(context.Background(), mux, s); err != nil {
		return nil, fmt.Errorf("register the routes of capgate.v1.Registry: %w", err)
	}
	a.json = http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxRequest)) // an operator's browser may show others' pages
	return a, nil
}

// failed answers a request that failed. What has no details is no refusal of the server's:
// the body could not be read.
func (c *Config) failed(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if st := status.Convert(err); st.Code() == codes.InvalidArgument && len(st.Details()) == 0 {
		err = c.Status(&call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY", Message: "the body is not what is wanted: " + st.Message()}).Err()
	}
	rest.WriteProblem(w, r, err, c.HTTPStatus)
}

// Mount adds what the API serves to a mux.
func (a *API) Mount(mux *http.ServeMux) {
	mux.Handle("POST /v1/registrations", a.json)
	mux.Handle("POST /v1/registrations:withdraw", a.json)
	for service := range a.grpc.GetServiceInfo() {
		mux.Handle("POST /"+service+"/", a.grpc)
	}
}
