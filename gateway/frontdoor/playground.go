package frontdoor

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ServeAs serves a request for the JSON API whose caller is known: its calls pass the same lists as those of clients,
// as who. The address is the client's, for the logs. Headers of the request that would be a credential or a name are
// ignored.
func (d *Doors) ServeAs(w http.ResponseWriter, r *http.Request, who tenant.Identity, address string) {
	d.own.ServeHTTP(w, d.Web.Assume(r, who, address))
}

// StreamAs makes a call as who. The metadata is that of the call.
func (d *Doors) StreamAs(ctx context.Context, who tenant.Identity, address string, md metadata.MD,
	req *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, docpb.Capability_StreamInvoke_FullMethodName, nil)
	if err != nil {
		return nil, err
	}
	ctx = d.Web.Assume(r, who, address).Context()
	return docpb.NewCapabilityClient(d.conn).StreamInvoke(metadata.NewOutgoingContext(ctx, md), req)
}
