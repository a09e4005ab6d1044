package auditlog

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	defaultPage = 100
	maxPage     = 1000
	maxName     = 256 // bytes of a filter
	invalid     = "AUDIT_INVALID"
)

// New returns the service.
func New(log *recent.Log) admin.Service {
	return admin.NewService[capgatepb.AuditLogServer](&server{log: log}, capgatepb.RegisterAuditLogServer,
		capgatepb.RegisterAuditLogHandlerServer)
}

// server is capgate.v1.AuditLog.
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
	var err error
	if f.Tenants, err = operator.Tenants(ctx, req.GetTenant()); err != nil {
		return nil, err
	}
	size, after, refusal := paging.Read(req, defaultPage, maxPage, invalid)
	if refusal != nil {
		return nil, refusal
	}
	all, partial := s.log.Changes(ctx)
	resp, last := &capgatepb.ListChangesResponse{Partial: partial}, ""
	for i := range all {
		c := &all[i]
		if after != "" && position(c) >= after || !f.Matches(c) {
			continue
		}
		if len(resp.GetChanges()) == size {
			resp.NextPageToken = paging.Token(last)
			break
		}
		resp.Changes = append(resp.Changes, message(c))
		last = position(c)
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

// position orders changes, the newest last.
func position(c *recent.Change) string { return fmt.Sprintf("%020d %s", c.At.UnixNano(), c.ID) }
