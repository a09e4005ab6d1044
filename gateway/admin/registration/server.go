package registration

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Defaults of a request.
const (
	defaultTTL    = 30 * time.Second
	defaultWeight = 100
)

// server implements capgate.v1.Registry.
type server struct {
	capgatepb.UnimplementedRegistryServer
	registry Registry
	audit    *audit.Log
}

// RegisterBackend implements capgatepb.RegistryServer.
func (s *server) RegisterBackend(ctx context.Context,
	req *capgatepb.RegisterBackendRequest) (*capgatepb.RegisterBackendResponse, error) {
	dialect, ok := call.ParseDialect(req.GetDialect())
	if !ok {
		return nil, call.InvalidField("REGISTRATION_INVALID", "dialect", "must be auto, doc, live or legacy")
	}
	g := registry.Registration{
		Capability: req.GetCapability(), Addr: req.GetAddr(), Lease: req.GetLease(), TTL: defaultTTL,
		Weight: defaultWeight,
		Zone:   req.GetZone(), Session: req.GetSession(), Tenant: req.GetTenant(), Dialect: dialect,
		MaxConcurrent: int(req.GetMaxConcurrent()),
		Manifest:      registry.NewManifest(req.GetManifest()),
	}
	if req.Ttl != nil {
		g.TTL = req.GetTtl().AsDuration()
	}
	if req.Weight != nil {
		g.Weight = int(req.GetWeight())
	}
	g, err := s.registry.Register(ctx, g)
	if err != nil {
		return nil, err
	}
	if req.GetLease() == "" { // otherwise the request renews a lease
		admin.Record(ctx, s.audit, "backend.registered", "", "capability", g.Capability, "backend", g.Addr)
	}
	resp := &capgatepb.RegisterBackendResponse{Lease: g.Lease, Ttl: durationpb.New(g.TTL)}
	for _, addr := range g.Pinned {
		resp.Addrs = append(resp.Addrs, addr.String())
	}
	return resp, nil
}

// WithdrawBackend implements capgatepb.RegistryServer.
func (s *server) WithdrawBackend(ctx context.Context,
	req *capgatepb.WithdrawBackendRequest) (*capgatepb.WithdrawBackendResponse, error) {
	err := s.registry.Withdraw(ctx, registry.Key{Capability: req.GetCapability(), Addr: req.GetAddr()}, req.GetLease())
	if err != nil {
		return nil, err
	}
	admin.Record(ctx, s.audit, "backend.withdrawn", "", "capability", req.GetCapability(), "backend", req.GetAddr())
	return new(capgatepb.WithdrawBackendResponse), nil
}
