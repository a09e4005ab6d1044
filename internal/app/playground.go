package app

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/admin/playground"
	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// playgroundFeature makes calls for operators, as callers would. The gateway is made after its admin API.
func playgroundFeature() feature {
	return feature{build: func(p *App) error {
		cfg := playground.Config{Tools: p.tools.catalog, Decider: p.rules.decider, Tenants: p.auth.roster,
			Settings: p.auth.directory.Settings,
			Serve: func(w http.ResponseWriter, r *http.Request, identity tenant.Identity, address string) {
				p.gateway.Doors().ServeAs(w, r, identity, address)
			},
			Stream: func(ctx context.Context, identity tenant.Identity, address string, md metadata.MD,
				req *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error) {
				return p.gateway.Doors().StreamAs(ctx, identity, address, md, req)
			}}
		p.parts.services = append(p.parts.services, playground.New(cfg))
		return nil
	}}
}
