package frontdoor

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ServeAs serves a request for the JSON API on behalf of who. Its calls pass the same lists as those of clients.
// address is the client's address, for the logs. Credentials and names in the request's headers are ignored.
func (d *Doors) ServeAs(w http.ResponseWriter, r *http.Request, identity tenant.Identity, address string) {
	d.own.ServeHTTP(w, d.Web.Assume(r, identity, address))
}

// StreamAs makes a streaming call on behalf of who, with the metadata md.
func (d *Doors) StreamAs(ctx context.Context, identity tenant.Identity, address string, md metadata.MD,
	req *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, docpb.Capability_StreamInvoke_FullMethodName, nil)
	if err != nil {
		return nil, err
	}
	ctx = d.Web.Assume(r, identity, address).Context()
	return docpb.NewCapabilityClient(d.conn).StreamInvoke(metadata.NewOutgoingContext(ctx, md), req)
}
