package auditlog

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	maxName = 256 // bytes of a filter
	invalid = "AUDIT_INVALID"
)

// pages sets the page sizes of lists of changes.
var pages = paging.Bounds{Standard: 100, Most: 1000, Reason: invalid}

// New returns the service.
func New(log *recent.Log) admin.Service {
	return admin.NewService[capgatepb.AuditLogServer](&server{log: log}, capgatepb.RegisterAuditLogServer,
		capgatepb.RegisterAuditLogHandlerServer)
}

// server implements capgate.v1.AuditLog.
type server struct {
	capgatepb.UnimplementedAuditLogServer
	log *recent.Log
}

// ListChanges implements capgatepb.AuditLogServer.
func (s *server) ListChanges(ctx context.Context, req *capgatepb.ListChangesRequest) (*capgatepb.ListChangesResponse,
	error) {
	f := recent.ChangeFilter{Actor: req.GetActor(), What: req.GetWhat()}
	for name, v := range map[string]string{"tenant": req.GetTenant(), "actor": f.Actor, "what": f.What} {
		if len(v) > maxName {
			return nil, call.InvalidField(invalid, name, "it must have at most 256 bytes")
		}
	}
	query, refusal := search.Read(invalid, req.GetQuery())
	if refusal != nil {
		return nil, refusal
	}
	var err error
	if f.Tenants, err = operator.Tenants(ctx, req.GetTenant()); err != nil {
		return nil, err
	}
	page, refusal := pages.Read(req)
	if refusal != nil {
		return nil, refusal
	}
	all, partial := s.log.Changes(ctx)
	listed, next := paging.SliceDescending(page, all, position,
		func(c *recent.Change) bool { return f.Matches(c) && query.Matches(texts(c)...) })
	resp := &capgatepb.ListChangesResponse{Partial: partial, NextPageToken: paging.Token(next)}
	for _, c := range listed {
		resp.Changes = append(resp.Changes, message(c))
	}
	return resp, nil
}

func message(c *recent.Change) *capgatepb.Change {
	m := &capgatepb.Change{Id: c.ID, Time: timestamppb.New(c.At), Actor: c.Actor, What: c.What, Tenant: c.Tenant,
		Replica: c.Replica}
	for _, t := range c.Targets {
		m.Targets = append(m.Targets, &capgatepb.Change_Target{Name: t.Name, Value: t.Value})
	}
	return m
}

// texts returns the texts of a change that a query searches.
func texts(c *recent.Change) []string {
	all := []string{c.Actor, c.What, c.Tenant, c.Replica}
	for _, t := range c.Targets {
		all = append(all, t.Name, t.Value)
	}
	return all
}

// position returns the sort key of a change, in increasing order of time.
func position(c *recent.Change) string { return fmt.Sprintf("%020d %s", c.At.UnixNano(), c.ID) }
