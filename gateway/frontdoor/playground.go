package gateway

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ServeAs serves a request for the JSON API whose caller is known: its calls pass the same lists as those of clients,
// as who. The address is the client's, for the logs. Headers of the request that would be a credential or a name are
// ignored.
func (g *Gateway) ServeAs(w http.ResponseWriter, r *http.Request, who tenant.Identity, address string) {
	v := g.assume(r, who, address)
	g.doors.ServeHTTP(w, frontdoor.With(r.WithContext(&v.Scope), webRequestKey{}, v))
}

// StreamAs makes a call as who. The metadata is that of the call.
func (g *Gateway) StreamAs(ctx context.Context, who tenant.Identity, address string, md metadata.MD,
	req *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, docpb.Capability_StreamInvoke_FullMethodName, nil)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, webRequestKey{}, g.assume(r, who, address))
	return docpb.NewCapabilityClient(g.inside).StreamInvoke(metadata.NewOutgoingContext(ctx, md), req)
}

// assume returns a request as if who had been authenticated.
func (g *Gateway) assume(r *http.Request, who tenant.Identity, address string) *webRequest {
	v := &webRequest{h: g.handler, r: r, came: time.Now()}
	v.client = filter.Client{Address: address, Drawn: g.handler.trace.Draw(webHeaders(r.Header))}
	v.from = v.client.Address
	v.setIdentity(who)
	v.Context = r.Context()
	return v
}
