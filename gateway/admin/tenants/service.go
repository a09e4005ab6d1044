package tenants

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxName is the maximum length of names, in bytes.
const maxName = 256

// pages sets the page sizes of lists of tenants and keys.
var pages = paging.Bounds{Standard: 100, Most: 1000, Reason: "TENANT_INVALID"}

// Store stores tenants and keys. Its errors are those of package tenant; any other error means that the store is
// unavailable.
type Store interface {
	FindTenant(ctx context.Context, id string) (*tenant.Record, error) // nil means not found
	CreateTenant(ctx context.Context, r *tenant.Record) error
	UpdateTenant(ctx context.Context, r *tenant.Record) error
	DeleteTenant(ctx context.Context, id string, version int64, force bool) error
	ListTenants(ctx context.Context, after string, most int) (page []*tenant.Record, next string, err error)

	FindKey(ctx context.Context, id string) (*tenant.Key, error) // nil means not found
	CreateKey(ctx context.Context, k *tenant.Key) error
	RotateKey(ctx context.Context, id string, next *tenant.Key, grace time.Duration) error
	RevokeKey(ctx context.Context, of, id string) error
	ListKeys(ctx context.Context, of, uid, after string, most int) (page []*tenant.Key, next string, err error)
}

// Config configures a Service.
type Config struct {
	Store   Store               // nil means nothing can be created
	Tenants *tenant.Directory   // the configuration's tenants; required
	Roster  *tenant.Roster      // all tenants, for operators; nil means the gateway has no tenants
	Keys    *tenant.Keys        // the configuration's keys; required
	Pepper  func() []byte       // current key of the hashes of secrets; required
	Changed func(tenant.Change) // called before the response to a change; required with Store
	Log     *slog.Logger        // changes; required
	Audit   *audit.Log          // changes; optional
}

// Service implements capgate.v1.Tenants at both ports.
type Service struct{ operators, callers *server }

// New returns a Service.
func New(cfg Config) *Service {
	return &Service{operators: &server{Config: cfg, authenticate: ofOperators, detailed: true},
		callers: &server{Config: cfg, authenticate: ofCallers}}
}

// Operators returns the service of the admin API.
func (s *Service) Operators() admin.Service {
	service := admin.NewService[capgatepb.TenantsServer](s.operators, capgatepb.RegisterTenantsServer,
		capgatepb.RegisterTenantsHandlerServer)
	service.Fault = s.operators.fault
	return service
}

// Register adds the service for the public port.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	capgatepb.RegisterTenantsServer(status.Registrar(g, s.callers.fault), s.callers)
}

// server implements the service at one port.
type server struct {
	capgatepb.UnimplementedTenantsServer
	Config
	authenticate func(context.Context) (principal, error) // returns the principal of a request
	// errors include those of the store, which may contain addresses
	detailed bool
}

// changedTenant invalidates this replica's caches after a change, even if its outcome is unknown.
func (s *server) changedTenant(ctx context.Context, what string, by *principal, id string, err error) error {
	s.Changed(tenant.Change{Tenant: id})
	if err == nil {
		s.Log.InfoContext(ctx, "tenant "+what, "tenant", id, "by", by.name)
		s.Audit.RecordChange(&audit.Change{Actor: by.name, What: "tenant." + what, Tenant: id})
	}
	return err
}

// changedKey is changedTenant for a key.
func (s *server) changedKey(ctx context.Context, what string, h *keyAccess, id string, err error) error {
	s.Changed(tenant.Change{Key: id})
	if err == nil {
		s.Log.InfoContext(ctx, "API key "+what, "tenant", h.of, "key", id, "by", h.name)
		s.Audit.RecordChange(&audit.Change{Actor: h.name, What: "key." + what, Tenant: h.of,
			Targets: audit.Targets("key", id)})
	}
	return err
}

// fault returns the refusal for an error of the store.
func (s *server) fault(err error) *call.Refusal {
	for _, known := range [...]struct {
		err    error
		kind   call.Kind
		reason string
	}{
		{tenant.ErrTenantExists, call.AlreadyExists, "TENANT_EXISTS"},
		{tenant.ErrTenantUnknown, call.NotFound, "TENANT_UNKNOWN"},
		{tenant.ErrTenantChanged, call.Aborted, "TENANT_CHANGED"},
		{tenant.ErrTenantHasKeys, call.FailedPrecondition, "TENANT_HAS_KEYS"},
		{tenant.ErrStoreFull, call.ResourceExhausted, "TENANTS_FULL"},
		{tenant.ErrKeyUnknown, call.NotFound, "KEY_UNKNOWN"},
		{tenant.ErrKeyExpired, call.FailedPrecondition, "KEY_OVER"},
		{tenant.ErrKeyRotated, call.FailedPrecondition, "KEY_ROTATED"},
	} {
		if errors.Is(err, known.err) {
			return &call.Refusal{Kind: known.kind, Reason: known.reason, Message: known.err.Error()}
		}
	}
	refusal := *refusedUnavailable
	if s.detailed {
		refusal.Message += ": " + err.Error()
	}
	return &refusal
}

func invalid(field, text string) error { return call.InvalidField("TENANT_INVALID", field, text) }

var (
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "TENANTS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "the store of tenants and keys is unavailable; a change may have been made, so repeat it"}
	refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "TENANTS_OFF",
		Message: "this gateway stores no tenants and keys; set identity.store: redis in its configuration"}
	refusedTenantInFile = &call.Refusal{Kind: call.FailedPrecondition, Reason: "TENANT_IN_FILE",
		Message: "the tenant is defined in the gateway's configuration; change it there"}
	refusedKeyInFile = &call.Refusal{Kind: call.FailedPrecondition, Reason: "KEY_IN_FILE",
		Message: "the API key is defined in the gateway's configuration; change it there"}
)
