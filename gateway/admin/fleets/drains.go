package fleets

import (
	"context"
	"errors"
	"strings"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/operator"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	"github.com/capgate/capgate/router"
)

// GetBackend implements capgatepb.FleetsServer.
func (s *server) GetBackend(_ context.Context, req *capgatepb.GetBackendRequest) (*capgatepb.GetBackendResponse,
	error) {
	fleets := s.having(req.GetAddr(), req.GetCapability())
	if len(fleets) == 0 {
		return nil, refusedBackend(req.GetAddr(), req.GetCapability())
	}
	return &capgatepb.GetBackendResponse{Backend: s.backend(req.GetAddr(), fleets)}, nil
}

// DrainBackend implements capgatepb.FleetsServer.
func (s *server) DrainBackend(ctx context.Context,
	req *capgatepb.DrainBackendRequest) (*capgatepb.DrainBackendResponse, error) {
	b, err := s.set(ctx, req.GetAddr(), req.GetCapability(), true, req.GetForce())
	return &capgatepb.DrainBackendResponse{Backend: b}, err
}

// UndrainBackend implements capgatepb.FleetsServer.
func (s *server) UndrainBackend(ctx context.Context,
	req *capgatepb.UndrainBackendRequest) (*capgatepb.UndrainBackendResponse, error) {
	b, err := s.set(ctx, req.GetAddr(), req.GetCapability(), false, true)
	return &capgatepb.UndrainBackendResponse{Backend: b}, err
}

// set starts or ends the drain of a backend.
func (s *server) set(ctx context.Context, addr, capability string, drained, force bool) (*capgatepb.BackendState,
	error) {
	fleets := s.having(addr, capability)
	if len(fleets) == 0 {
		return nil, refusedBackend(addr, capability)
	}
	var keys []drains.Key
	var bare []string
	for _, f := range fleets {
		keys = append(keys, drains.Key{Capability: f.Capability, Addr: addr})
		if f.UsableWithout(addr) == 0 {
			bare = append(bare, f.Capability)
		}
	}
	if !force && len(bare) > 0 {
		return nil, &call.Refusal{Kind: call.FailedPrecondition, Reason: "LAST_BACKEND",
			Message: "no other backend could take the calls of " + strings.Join(bare, ", ") +
				": they would be rejected; set force to drain it anyway"}
	}
	before := s.backend(addr, fleets)
	shared, err := s.Drains.Set(ctx, keys, drained, operator.Authenticated(ctx))
	if errors.Is(err, drains.ErrFull) {
		return nil, &call.Refusal{Kind: call.ResourceExhausted, Reason: "TOO_MANY_DRAINS", Message: err.Error()}
	}
	what := "backend.undrained"
	if drained {
		what = "backend.drained"
	}
	for _, k := range keys {
		admin.Record(ctx, s.Audit, what, "", "capability", k.Capability, "backend", addr)
	}
	after := s.backend(addr, fleets)
	after.Shared = shared
	for i, d := range after.GetDrains() {
		d.Changed = before.GetDrains()[i].GetDrained() != drained
	}
	return after, nil
}

// having returns the fleets that have a backend, limited to a capability if it is not empty.
func (s *server) having(addr, capability string) []*router.Fleet {
	var fleets []*router.Fleet
	for _, f := range s.Router.Table().Fleets() {
		if capability != "" && f.Capability != capability {
			continue
		}
		for _, b := range f.Backends {
			if b.Addr == addr {
				fleets = append(fleets, f)
				break
			}
		}
	}
	return fleets
}

func (s *server) backend(addr string, fleets []*router.Fleet) *capgatepb.BackendState {
	state := &capgatepb.BackendState{Addr: addr, Shared: true}
	for _, f := range fleets {
		left := s.Drains.Remaining(drains.Key{Capability: f.Capability, Addr: addr})
		d := &capgatepb.DrainState{Capability: f.Capability, Drained: left.Drained,
			InFlight: restjson.Int32(left.Calls), Replicas: restjson.Int32(left.Replicas)}
		if left.Drained {
			d.Since, d.By, d.Unheard = seconds(left.Since), left.By, restjson.Int32(left.Unacknowledged)
		}
		state.Shared = state.GetShared() && left.Shared
		state.Drains = append(state.Drains, d)
	}
	return state
}

func refusedBackend(addr, capability string) *call.Refusal {
	detail := "no fleet has the backend " + addr
	if capability != "" {
		detail = "no fleet " + capability + " has the backend " + addr
	}
	return &call.Refusal{Kind: call.NotFound, Reason: "BACKEND_UNKNOWN", Message: detail}
}
