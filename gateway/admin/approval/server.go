package approval

import (
	"context"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/watch"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/archive"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	maxName    = 256  // bytes of a name
	maxComment = 1024 // bytes
)

// pages sets the page sizes of lists of approvals.
var pages = paging.Bounds{Standard: 50, Most: 100, Reason: "APPROVAL_INVALID"}

// Approvals stores approvals. Its errors are *call.Refusal and those of package approvals.
type Approvals interface {
	Get(ctx context.Context, tenant, id string) (approvals.Approval, error)
	List(ctx context.Context, tenant string, f approvals.Filter, after string, most int) (page []approvals.Approval,
		next string, err error)
	Approve(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error)
	Deny(ctx context.Context, tenant, id string, answer approvals.Answer) (approvals.Approval, error)
	MayAnswer(a *approvals.Approval, identity *approvals.Approver) *call.Refusal
	Past(ctx context.Context, tenants []string, f *approvals.PastFilter, within archive.Range) (
		archive.Found[approvals.Past], error)
	Statistics(ctx context.Context, tenants []string, from, to time.Time, sees approvals.Sees) (*approvals.Statistics,
		error)
	Events(ctx context.Context, tenant, after string, f func(approvals.Event) error) error
	AllEvents(ctx context.Context, before bool, f func(approvals.Event) error) error
}

// Across searches approvals of many tenants. An error means that the store does not respond.
type Across interface {
	FilterTenants(ctx context.Context, tenants []string) ([]string, error) // returns the tenants that have approvals
	PastTenants(ctx context.Context, tenants []string) ([]string, error)   // the same for those that have ended
	// TenantOf returns the tenant of an approval; empty means unknown.
	TenantOf(ctx context.Context, id string, tenants []string) (string, error)
}

// Config configures a Service. All fields but Audit, Tenants and Across are required.
type Config struct {
	Approvals Approvals
	Tenants   *tenant.Roster // nil means only tenant.Default exists
	Across    Across         // required with Tenants
	Log       *slog.Logger   // log of answers
	Audit     *audit.Log     // optional
	// Pending returns the backlog of a tenant. If nil, lists have no totals.
	Pending func(ctx context.Context, tenant string) (approvals.Backlog, error)
	// Follow returns a context that ends when check returns false, as session.Manager.Follow does, and StillValid
	// checks the credential of a caller at the public port. If nil, watches outlast their credentials.
	Follow     func(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc)
	StillValid func(context.Context, *tenant.Identity) bool
	KeyName    func(id string) string // returns the name of a tenant's API key from memory; optional
	// Key returns an API key of a tenant, nil if it does not exist, or the refusal if the store is unavailable. If Key
	// is nil, no key is known.
	Key func(ctx context.Context, id string) (*tenant.Key, *call.Refusal)
}

// Service implements capgate.v1.Approvals at both ports.
type Service struct {
	operators, callers *server
	leave              context.CancelFunc
}

// New returns a Service. Leave ends its watches.
func New(cfg Config) *Service {
	leaving, leave := context.WithCancel(context.Background())
	made := func(see func(context.Context, string) (caller, error)) *server {
		return &server{Config: cfg, see: see, watchers: watch.NewSlots(leaving, "watchers", maxWatchers)}
	}
	return &Service{made(ofOperators(cfg.Tenants)), made(ofCallers(cfg.KeyName)), leave}
}

// Operators returns the service of the admin API.
func (s *Service) Operators() admin.Service {
	o := s.operators
	events := rest.NewEvents(o.feed, rest.EventsConfig{})
	service := admin.NewService[capgatepb.ApprovalsServer](o, capgatepb.RegisterApprovalsServer,
		capgatepb.RegisterApprovalsHandlerServer)
	service.Serve = map[string]runtime.HandlerFunc{capgatepb.Approvals_WatchApprovals_FullMethodName: events.Serve}
	return service
}

// Register adds the service for the public port.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	capgatepb.RegisterApprovalsServer(status.Registrar(g, nil), s.callers)
}

// Leave ends all watches before the gateway stops.
func (s *Service) Leave() { s.leave() }

// server implements the service at one port.
type server struct {
	capgatepb.UnimplementedApprovalsServer
	Config
	// see returns the caller of a request for a tenant.
	see      func(ctx context.Context, tenant string) (caller, error)
	watchers *watch.Slots // by tenant
}

// ListApprovals implements capgatepb.ApprovalsServer.
func (s *server) ListApprovals(ctx context.Context,
	req *capgatepb.ListApprovalsRequest) (*capgatepb.ListApprovalsResponse, error) {
	v, err := s.caller(ctx, req)
	if err != nil {
		return nil, err
	}
	f, err := filterOf(req)
	if err != nil {
		return nil, err
	}
	asked, refusal := pages.Read(req)
	if refusal != nil {
		return nil, refusal
	}
	resp := new(capgatepb.ListApprovalsResponse)
	if v.user != "" && f.User != "" && f.User != v.user {
		return resp, nil
	}
	if v.user != "" {
		f.User = v.user
	}
	page, next, err := s.list(ctx, &v, f, asked.After, asked.Size)
	if err != nil {
		return nil, err
	}
	resp.NextPageToken = paging.Token(next)
	if f.State == approvals.Pending && asked.After == "" {
		resp.TotalPending = int32(s.pending(ctx, &v))
	}
	for i := range page {
		if v.lists(&page[i]) {
			resp.Approvals = append(resp.Approvals, s.shown(&page[i], &v))
		}
	}
	return resp, nil
}

// filterOf parses the filter of a list.
func filterOf(req *capgatepb.ListApprovalsRequest) (f approvals.Filter, err error) {
	f = approvals.Filter{User: req.GetUser(), Agent: req.GetAgent(), Capability: req.GetCapability(),
		Tool: req.GetTool(), Text: req.GetText()}
	if len(f.Text) > maxName || !utf8.ValidString(f.Text) {
		return f, invalid("text", "it must have at most 256 bytes of UTF-8")
	}
	if name := req.GetState(); name != "" {
		var ok bool
		if f.State, ok = approvals.ParseState(name); !ok {
			return f, invalid("state", "it must be pending, approved, denied, expired or used")
		}
	}
	var ok bool
	if f.Order, ok = approvals.ParseOrder(req.GetOrder()); !ok {
		return f, invalid("order", "it must be newest, oldest or expires")
	}
	if f.Order == approvals.Expires && !f.State.Open() {
		return f, invalid("order", "expires needs the state pending or approved")
	}
	return f, nil
}

// GetApproval implements capgatepb.ApprovalsServer.
func (s *server) GetApproval(ctx context.Context, req *capgatepb.GetApprovalRequest) (*capgatepb.GetApprovalResponse,
	error) {
	v, err := s.caller(ctx, req)
	if err != nil {
		return nil, err
	}
	a, err := s.get(ctx, &v, req.GetApprovalId())
	if err != nil {
		return nil, err
	}
	return &capgatepb.GetApprovalResponse{Approval: s.shown(&a, &v)}, nil
}

// get returns an approval that the caller may see.
func (s *server) get(ctx context.Context, v *caller, id string) (approvals.Approval, error) {
	if err := s.resolve(ctx, v, id); err != nil {
		return approvals.Approval{}, err
	}
	a, err := s.Approvals.Get(ctx, v.tenant, id)
	if err == nil && !v.sees(&a) {
		return approvals.Approval{}, refusedUnknown
	}
	return a, err
}

// caller returns the caller of a request.
func (s *server) caller(ctx context.Context, req interface{ GetTenant() string }) (caller, error) {
	if name := req.GetTenant(); len(name) > maxName || !utf8.ValidString(name) {
		return caller{}, invalid("tenant", "it must have at most 256 bytes of UTF-8")
	}
	v, err := s.see(ctx, req.GetTenant())
	if err == nil {
		err = s.trace(ctx, &v)
	}
	return v, err
}

// trace adds the origin of a caller's API key, which counts as one approver.
func (s *server) trace(ctx context.Context, v *caller) error {
	if v.keyID == "" || s.Key == nil {
		return nil
	}
	k, refusal := s.Key(ctx, v.keyID)
	if refusal != nil {
		return refusal
	}
	if k != nil { // nil for a key of operators, or a key that was deleted meanwhile
		v.approver.Names = append(v.approver.Names, tenant.KeyCredential(k.Line()))
		v.approver.Makers, v.approver.Created = k.Makers, k.Created
	}
	return nil
}

func invalid(field, text string) error { return call.InvalidField("APPROVAL_INVALID", field, text) }
