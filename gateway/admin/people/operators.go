package people

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	maxBody = 8 << 10 // bytes of a request to revoke sessions, and of a name
	maxID   = 64      // exceeds the length of any session's id, in bytes
)

// pages sets the page sizes of lists of sessions.
var pages = paging.Bounds{Standard: 100, Most: 500}

// server implements capgate.v1.Operators.
type server struct {
	capgatepb.UnimplementedOperatorsServer
	*People
}

// Service returns the service of the admin API.
func (p *People) Service() admin.Service {
	service := admin.NewService[capgatepb.OperatorsServer](server{People: p}, capgatepb.RegisterOperatorsServer,
		capgatepb.RegisterOperatorsHandlerServer)
	service.Unreadable, service.Body, service.NoStore = unreadable, maxBody, true
	return service
}

// unreadable returns the refusal of an invalid parameter or body.
func unreadable(parameter string) *call.Refusal {
	switch parameter {
	case "":
		return refusedBody
	case "page_size":
		return refusedSize
	}
	return nil
}

var (
	refusedBody = &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY",
		Message: `the body must be JSON with either session, an id, or name, as GET /v1/sessions has them`}
	refusedUnlisted = &call.Refusal{Kind: call.NotFound, Reason: "SESSION_UNKNOWN",
		Message: "the list has no such session, as GET /v1/sessions shows; if there is one, it has ended now"}
	refusedSize = call.InvalidField("INVALID_PAGE_SIZE", "page_size", "it must be a non-negative number")
)

// GetMe implements capgatepb.OperatorsServer. It works for all kinds of credentials.
func (s server) GetMe(ctx context.Context, _ *capgatepb.GetMeRequest) (*capgatepb.GetMeResponse, error) {
	identity := operator.FromContext(ctx)
	if identity == nil { // the admin API requires no credential
		identity = &operator.Identity{Name: operator.Unnamed}
	}
	me := &capgatepb.GetMeResponse{Name: identity.Name, User: identity.User, Tenant: identity.Only(),
		Roles:  identity.Any().Names(),
		Groups: identity.Groups, Via: identity.Via, Issuer: identity.Issuer, Insecure: s.cfg.Insecure}
	if of := identity.Session; of != nil {
		me.ExpireTime, me.CsrfToken, me.Session = restjson.Time(of.Expires), of.CSRF, of.ID
	}
	if len(identity.Tenants) > 0 && me.GetTenant() == "" {
		me.AllRoles = restjson.Strings(identity.Roles.Names())
		for _, t := range identity.Tenants {
			me.Tenants = append(me.Tenants, &capgatepb.TenantRoles{Tenant: t.Tenant, Roles: t.Roles.Names()})
		}
	}
	return me, nil
}

// ListSessions implements capgatepb.OperatorsServer. It lists the active sessions of all ports.
func (s server) ListSessions(ctx context.Context,
	req *capgatepb.ListSessionsRequest) (*capgatepb.ListSessionsResponse, error) {
	all, refusal := s.cfg.SignIn.Sessions.List(ctx)
	if refusal != nil {
		return nil, refusal
	}
	size, refusal := pages.Size(req)
	if refusal != nil {
		return nil, refusedSize
	}
	query, refusal := search.Read("INVALID_QUERY", req.GetQuery())
	if refusal != nil {
		return nil, refusal
	}
	all = slices.DeleteFunc(all, func(r session.Record) bool {
		return !query.Matches(r.Name, r.User, r.Issuer, r.Key, r.KeyName, r.Tenant, r.Via, string(r.Kind), r.ID)
	})
	listed, next := paging.SliceDescending(paging.Page{Size: size, After: req.GetPageToken()}, all, position,
		func(*session.Record) bool { return true })
	resp := &capgatepb.ListSessionsResponse{NextPageToken: next, TotalSize: restjson.Int32(len(all))}
	for _, r := range listed {
		resp.Sessions = append(resp.Sessions, &capgatepb.Session{Id: r.ID, Kind: string(r.Kind), Name: r.Name,
			User: r.User, Issuer: r.Issuer, Key: r.Key, KeyName: r.KeyName, Tenant: r.Tenant, Via: r.Via,
			CreateTime: timestamppb.New(r.Issued), ExpireTime: timestamppb.New(r.Expires)})
	}
	return resp, nil
}

// position returns the sort key of a session, in increasing order of time.
func position(r *session.Record) string { return fmt.Sprintf("%020d-%s", r.Issued.UnixMilli(), r.ID) }

// RevokeSessions implements capgatepb.OperatorsServer. It ends one session, or all sessions of a person or key, at all
// replicas. A list that is full lacks sessions, so what it does not have is revoked too.
func (s server) RevokeSessions(ctx context.Context,
	req *capgatepb.RevokeSessionsRequest) (*capgatepb.RevokeSessionsResponse, error) {
	if (req.GetSession() == "") == (req.GetName() == "") || len(req.GetSession()) > maxID ||
		len(req.GetName()) > maxBody {
		return nil, refusedBody
	}
	// An error of the list does not hold up a revocation.
	listed, away := s.cfg.SignIn.Sessions.List(ctx)
	known := away != nil || slices.ContainsFunc(listed, func(r session.Record) bool {
		return r.ID == req.GetSession() || r.Name == req.GetName()
	})
	ended, refusal := req.GetSession(), (*call.Refusal)(nil)
	if ended != "" {
		refusal = s.cfg.SignIn.Sessions.End(ctx, ended, time.Time{})
	} else {
		ended = req.GetName()
		refusal = s.cfg.SignIn.Sessions.EndAll(ctx, ended)
	}
	if refusal != nil {
		return nil, refusal
	}
	admin.Record(ctx, s.cfg.SignIn.Audit, "session.revoked", "", "session", ended)
	if !known {
		return nil, refusedUnlisted
	}
	return new(capgatepb.RevokeSessionsResponse), nil
}
