package fleets

import (
	"context"
	"errors"
	"time"

	"golang.org/x/oauth2"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/operator"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxLogin is the maximum body of a login, in bytes.
const maxLogin = 5*logins.MaxText + 32<<10

// GetFleetLogin implements capgatepb.FleetsServer.
func (s *server) GetFleetLogin(ctx context.Context,
	req *capgatepb.GetFleetLoginRequest) (*capgatepb.GetFleetLoginResponse, error) {
	login, err := s.login(ctx, req.GetCapability())
	return &capgatepb.GetFleetLoginResponse{Login: login}, err
}

func (s *server) login(ctx context.Context, fleet string) (*capgatepb.FleetLogin, error) {
	of, err := s.Logins.State(ctx, fleet)
	if err != nil {
		return nil, refusedLogin(err)
	}
	m := &capgatepb.FleetLogin{Capability: of.Name, State: of.State, Problem: of.Problem, Url: of.URL,
		Issuer: of.Issuer, ClientId: of.ClientID, Scopes: of.Ask, MetadataUrl: of.Metadata}
	if r := of.Record; r != nil {
		m.GrantedScopes, m.SetBy, m.SetTime = r.Scopes, r.By, seconds(r.At)
		m.ExpireTime, m.Refreshable = restjson.Time(r.Expiry), of.Refreshable
	}
	return m, nil
}

// SetFleetLogin implements capgatepb.FleetsServer.
func (s *server) SetFleetLogin(ctx context.Context,
	req *capgatepb.SetFleetLoginRequest) (*capgatepb.SetFleetLoginResponse, error) {
	styles := map[string]oauth2.AuthStyle{"": oauth2.AuthStyleAutoDetect,
		"client_secret_post": oauth2.AuthStyleInParams, "client_secret_basic": oauth2.AuthStyleInHeader}
	style, known := styles[req.GetAuthMethod()]
	if !known {
		return nil, invalidLogin("auth_method", "it must be client_secret_post, client_secret_basic or empty")
	}
	now := time.Now()
	r := &logins.Record{ClientID: req.GetClientId(), ClientSecret: req.GetClientSecret(), TokenURL: req.GetTokenUrl(),
		AuthStyle: style, Access: req.GetAccessToken(), Refresh: req.GetRefreshToken(), Obtained: now,
		Scopes: req.GetScopes(), By: operator.Authenticated(ctx), At: now}
	if req.GetExpireTime() != nil {
		r.Expiry = logins.Expiry(req.GetExpireTime().AsTime(), now)
	}
	if field, problem := r.Check(); problem != "" {
		return nil, invalidLogin(field, problem)
	}
	if err := s.Logins.Put(ctx, req.GetCapability(), req.GetUrl(), r); err != nil {
		return nil, refusedLogin(err)
	}
	admin.Record(ctx, s.Audit, "fleet.login.set", "", "capability", req.GetCapability(),
		"url", req.GetUrl(), "client_id", req.GetClientId(), "token_url", req.GetTokenUrl())
	login, err := s.login(ctx, req.GetCapability())
	return &capgatepb.SetFleetLoginResponse{Login: login}, err
}

// DeleteFleetLogin implements capgatepb.FleetsServer.
func (s *server) DeleteFleetLogin(ctx context.Context,
	req *capgatepb.DeleteFleetLoginRequest) (*capgatepb.DeleteFleetLoginResponse, error) {
	if err := s.Logins.Delete(ctx, req.GetCapability()); err != nil {
		return nil, refusedLogin(err)
	}
	admin.Record(ctx, s.Audit, "fleet.login.deleted", "", "capability", req.GetCapability())
	return &capgatepb.DeleteFleetLoginResponse{}, nil
}

func invalidLogin(field, problem string) *call.Refusal {
	return call.InvalidField("FLEET_LOGIN_INVALID", field, problem)
}

// refusedLogin returns the refusal for an error of the logins.
func refusedLogin(err error) *call.Refusal {
	switch {
	case errors.Is(err, logins.ErrUnknown), errors.Is(err, logins.ErrNone):
		return &call.Refusal{Kind: call.NotFound, Reason: "FLEET_LOGIN_UNKNOWN", Message: err.Error()}
	case errors.Is(err, logins.ErrClient):
		return invalidLogin("client_id", "it must be that of the fleet's oauth, which has a secret")
	case errors.Is(err, logins.ErrURL):
		return &call.Refusal{Kind: call.FailedPrecondition, Reason: "FLEET_LOGIN_URL", Message: err.Error()}
	}
	return &call.Refusal{Kind: call.Unavailable, Reason: "FLEET_LOGIN_UNAVAILABLE",
		Message: "the logins of fleets are not available; retry later"}
}
