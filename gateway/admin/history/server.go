package history

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/operator"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Config configures the service. All fields are required.
type Config struct {
	History *history.Log
	// Tenant returns the series of an existing tenant.
	Tenant func(ctx context.Context, id string) (history.Series, *call.Refusal)
	// Drains returns the drains of a fleet's backends since a time.
	Drains func(ctx context.Context, capability string, since time.Time) []history.Mark
}

// New returns the service.
func New(cfg Config) admin.Service {
	return admin.NewService[capgatepb.HistoryServer](&server{Config: cfg}, capgatepb.RegisterHistoryServer,
		capgatepb.RegisterHistoryHandlerServer)
}

// server implements capgate.v1.History.
type server struct {
	capgatepb.UnimplementedHistoryServer
	Config
}

// GetFleetHistory implements capgatepb.HistoryServer.
func (s *server) GetFleetHistory(ctx context.Context, req *capgatepb.GetFleetHistoryRequest) (
	*capgatepb.HistoryResponse, error) {
	of := history.Series{Kind: history.Fleet, Group: req.GetCapability()}
	switch {
	case req.GetBackend() != "" && req.GetTool() != "":
		return nil, invalid("tool", "name a backend or a tool, not both")
	case req.GetBackend() != "":
		of.Kind, of.Name = history.Backend, req.GetBackend()
	case req.GetTool() != "":
		of.Kind, of.Name = history.Tool, req.GetTool()
	}
	return s.read(ctx, of, req.GetSpan())
}

// GetTenantHistory implements capgatepb.HistoryServer.
func (s *server) GetTenantHistory(ctx context.Context, req *capgatepb.GetTenantHistoryRequest) (
	*capgatepb.HistoryResponse, error) {
	id, err := operator.Tenant(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	of, refusal := s.Tenant(ctx, id)
	if refusal != nil {
		return nil, refusal
	}
	return s.read(ctx, of, req.GetSpan())
}

// ListHistory implements capgatepb.HistoryServer.
func (s *server) ListHistory(ctx context.Context, req *capgatepb.ListHistoryRequest) (*capgatepb.ListHistoryResponse,
	error) {
	kind, known := map[string]history.Kind{"": history.Backend, "backends": history.Backend,
		"tools": history.Tool}[req.GetOf()]
	if !known {
		return nil, invalid("of", "it is backends or tools")
	}
	if !s.History.On() {
		return nil, off()
	}
	sums, err := s.History.LastHour(ctx, kind, req.GetCapability())
	if err != nil {
		return nil, unavailable()
	}
	return &capgatepb.ListHistoryResponse{Rows: rowsOf(sums)}, nil
}

// read returns a series with its marks.
func (s *server) read(ctx context.Context, of history.Series, name string) (*capgatepb.HistoryResponse, error) {
	if name == "" {
		name = history.Spans()[0].Name
	}
	span, known := history.SpanOf(name)
	switch {
	case !known:
		return nil, invalid("span", "it is 1h, 24h or 7d")
	case !s.History.On():
		return nil, off()
	}
	points, err := s.History.Read(ctx, of, span)
	if err != nil {
		return nil, unavailable()
	}
	var others []history.Dated
	if of.Kind != history.Tenant || operator.AllTenants(ctx) == nil {
		if others, err = s.History.Read(ctx, of.Others(), span); err != nil {
			return nil, unavailable()
		}
	}
	since := points[0].Began
	var marks []history.Mark
	if of.Kind != history.Tenant { // those of a tenant alone see nothing of the installation
		if marks, err = s.History.Marks(ctx, since); err != nil {
			return nil, unavailable()
		}
		marks = append(marks, s.Drains(ctx, of.Group, since)...)
	}
	return responseOf(span, points, others, marks), nil
}

func invalid(field, why string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "HISTORY_INVALID", Message: field + ": " + why,
		Metadata: map[string]string{"field": field}}
}

func unavailable() *call.Refusal {
	return &call.Refusal{Kind: call.Unavailable, Reason: "HISTORY_UNAVAILABLE",
		Message: "the history cannot be read from Redis; try again later"}
}

func off() *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "HISTORY_OFF",
		Message: "no history is kept; set history.series in the configuration"}
}
