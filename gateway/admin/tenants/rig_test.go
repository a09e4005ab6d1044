package tenants_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/tenants"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// pepper is the key of the secrets' hashes.
var pepper = []byte("0123456789abcdef") //nolint:gochecknoglobals // it is never changed

// rig is both ports of a gateway with tenants in a Redis, and one in its file.
type rig struct {
	store    tenants.Store
	service  *tenants.Service
	stored   *tenant.Stored
	port     *gatewaytest.Services
	operator capgatepb.TenantsClient
	gateway  *gatewaytest.Gateway
	conn     *grpc.ClientConn
	caller   capgatepb.TenantsClient
	log      *strings.Builder

	filed, ofFiled string // id of the file's key, and the key
}

func newRig(t *testing.T, wraps ...func(tenants.Store) tenants.Store) *rig {
	t.Helper()
	store := gatewaytest.OpenStore(t, "embedded").Tenants()
	r := &rig{log: new(strings.Builder), store: store}
	for _, wrap := range wraps {
		r.store = wrap(r.store)
	}
	r.stored = tenant.NewStored(store, tenant.Options{})
	r.stored.SetPepper(pepper)
	all, _ := tenant.ParseGrants([]string{"*"})
	settings := map[string]*tenant.Settings{"filed": {ID: "filed", Capabilities: all}}
	r.stored.Directory().Replace(settings)
	keys := tenant.NewKeys(nil)
	id, secret := tenant.NewCredential()
	r.filed, r.ofFiled = id, tenant.Credential(id, secret)
	keys.Replace([]tenant.Key{{
		ID: id, Tenant: "filed", Hash: tenant.HashOf(secret, pepper),
		Scopes: tenant.Admin | tenant.Invoke | tenant.Read, Asserts: tenant.User,
	}}, settings, pepper)
	r.service = tenants.New(tenants.Config{
		Store: r.store, Tenants: r.stored.Directory(),
		Roster: &tenant.Roster{Directory: r.stored.Directory(), Store: store}, Keys: keys,
		Pepper:  func() []byte { return pepper },
		Changed: r.stored.Changed, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	r.port = gatewaytest.ServeOperators(t, r.service.Operators())
	r.operator = capgatepb.NewTenantsClient(r.port.Conn)
	r.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Authenticator: tenant.NewAuthenticators(tenant.Sources{File: keys, Stored: r.stored}),
		Services:      r.service.Register,
	})
	r.conn = r.gateway.Conn(t)
	r.caller = capgatepb.NewTenantsClient(r.conn)
	return r
}

// showing shows a key.
func showing(t *testing.T, credential string) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
}

// invoke makes a call with a key, and answers with the reason that it is refused for.
func (r *rig) invoke(t *testing.T, credential string) string {
	t.Helper()
	_, err := docpb.NewCapabilityClient(r.conn).Invoke(showing(t, credential),
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
	return reason(err)
}

// json makes a request of the public port.
func (r *rig) json(t *testing.T, credential, method, path, body string) (int, string) {
	t.Helper()
	resp, text := clienttest.Send(t, r.gateway.HTTP1(t), method, r.gateway.URL(path), body, "Authorization",
		"Bearer "+credential)
	return resp.StatusCode, text
}

// reason is the reason of a refusal, "" if there was no refusal.
func reason(err error) string {
	if info := clienttest.ErrorInfo(err); info != nil {
		return info.GetReason()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// tenant makes one that may call everything.
func (r *rig) tenant(t *testing.T, id string) *capgatepb.Tenant {
	t.Helper()
	made, err := r.operator.CreateTenant(t.Context(),
		&capgatepb.CreateTenantRequest{Tenant: &capgatepb.Tenant{Id: id, Capabilities: []string{"*"}}})
	check.Must(t, err)
	return made.GetTenant()
}

// key makes one as an operator.
func (r *rig) key(t *testing.T, of string, scopes ...string) (*capgatepb.Key, string) {
	t.Helper()
	made, err := r.operator.CreateKey(t.Context(),
		&capgatepb.CreateKeyRequest{TenantId: of, Key: &capgatepb.Key{Scopes: scopes}})
	check.Must(t, err)
	return made.GetKey(), made.GetCredential()
}

func expect(t *testing.T, what string, err error, code codes.Code, want string) {
	t.Helper()
	if status.Code(err) != code || reason(err) != want {
		t.Errorf("%s: %v, %s; want %v, %s", what, err, reason(err), code, want)
	}
}

const aDay = 24 * time.Hour
