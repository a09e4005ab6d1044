package gateway_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// keyring creates keys and returns them by the names that a test gives them.
type keyring struct {
	keys        []tenant.Key
	uncached    bool         // callers are not in the cache
	issued      *tenant.Keys // what the last gateway knows of them
	credentials map[string]string
}

func (r *keyring) issue(name, of string, scopes tenant.Scopes, change func(*tenant.Key)) {
	id, secret := tenant.NewCredential()
	k := tenant.Key{ID: id, Tenant: of, Hash: tenant.HashOf(secret, nil), Scopes: scopes}
	if change != nil {
		change(&k)
	}
	if r.credentials == nil {
		r.credentials = map[string]string{}
	}
	r.keys, r.credentials[name] = append(r.keys, k), tenant.Credential(id, secret)
}

// newKeyring creates a key for each feature of keys.
func newKeyring() *keyring {
	r := &keyring{}
	r.issue("acme", "acme", tenant.Invoke|tenant.Read, nil)
	r.issue("globex", "globex", tenant.Invoke|tenant.Read, nil)
	r.issue("orchestrator", "acme", tenant.Invoke|tenant.Read,
		func(k *tenant.Key) { k.Asserts = tenant.User | tenant.Agent })
	r.issue("reader", "acme", tenant.Read, nil)
	r.issue("caller", "acme", tenant.Invoke, nil)
	r.issue("approver", "acme", tenant.Approve, nil)
	r.issue("ruler", "acme", tenant.Approve|tenant.Policy, func(k *tenant.Key) { k.Asserts = tenant.User })
	r.issue("expired", "acme", tenant.Invoke|tenant.Read, func(k *tenant.Key) {
		k.Expires = time.Now().Add(-time.Second)
	})
	return r
}

func (r *keyring) authenticator() authenticate.Authenticator {
	keys := tenant.NewKeys(nil)
	keys.Replace(r.keys, nil, nil)
	r.issued = keys
	if r.uncached {
		return uncached{keys}
	}
	return keys
}

// uncached returns an authenticator whose cache is empty.
type uncached struct{ *tenant.Keys }

func (uncached) Lookup(tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	return tenant.Identity{}, false, nil
}

// bearer returns the header of a key.
func bearer(ctx context.Context, credential string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential)
}

// keyed returns a front that requires keys.
func keyed(t *testing.T, r *keyring, client, backend call.Dialect) *front {
	t.Helper()
	return identified(t, r.authenticator(), client, backend)
}

// TestKeysAreAskedFor: over gRPC and JSON, in either metadata, calls without a valid key are rejected.
func TestKeysAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, uncached := range []bool{false, true} {
		t.Run("strangers "+strconv.FormatBool(uncached), func(t *testing.T) {
			t.Parallel()
			testKeysAreAskedFor(t, uncached)
		})
	}
}

func testKeysAreAskedFor(t *testing.T, uncached bool) {
	t.Helper()
	ring := newKeyring()
	ring.uncached = uncached
	f := keyed(t, ring, call.Doc, call.Doc)
	good, garbled := ring.credentials["acme"], ring.credentials["acme"]+"x"
	forged := tenant.Credential(good[3:19], strings.Repeat("a", 32))
	for what, test := range map[string]struct {
		header []string
		code   codes.Code
		reason string
	}{
		"nothing":              {nil, codes.Unauthenticated, "CREDENTIAL_MISSING"},
		"a bearer":             {[]string{"authorization", "Bearer " + good}, codes.OK, ""},
		"a bearer by any name": {[]string{"authorization", "bEARER " + good}, codes.OK, ""},
		"a bare key":           {[]string{"x-api-key", good}, codes.OK, ""},
		"both":                 {[]string{"x-api-key", good, "authorization", "Bearer " + good}, codes.OK, ""},
		"two keys": {[]string{"x-api-key", good, "authorization", "Bearer " + ring.credentials["globex"]},
			codes.Unauthenticated, "CREDENTIAL_INVALID"},
		"another scheme": {[]string{"authorization", "Basic " + good}, codes.Unauthenticated, "CREDENTIAL_INVALID"},
		"no scheme":      {[]string{"authorization", good}, codes.Unauthenticated, "CREDENTIAL_INVALID"},
		"garbled": {[]string{"authorization", "Bearer " + garbled}, codes.Unauthenticated,
			"CREDENTIAL_INVALID"},
		"garbled and bare": {[]string{"x-api-key", garbled}, codes.Unauthenticated, "CREDENTIAL_INVALID"},
		"forged": {[]string{"authorization", "Bearer " + forged}, codes.Unauthenticated,
			"CREDENTIAL_INVALID"},
		"empty": {[]string{"authorization", ""}, codes.Unauthenticated, "CREDENTIAL_INVALID"},
		"expired": {[]string{"x-api-key", ring.credentials["expired"]}, codes.Unauthenticated,
			"CREDENTIAL_EXPIRED"},
		"of another scope": {[]string{"x-api-key", ring.credentials["reader"]}, codes.PermissionDenied,
			"SCOPE_MISSING"},
		"says it is our caller": {[]string{"x-capgate-caller", "tenant=acme&scopes=invoke"}, codes.Unauthenticated,
			"CREDENTIAL_MISSING"},
		"says it is ours": {[]string{"x-capgate-ticket", "ours"}, codes.Unauthenticated, "CREDENTIAL_MISSING"},
		"says its tenant": {[]string{"x-tenant-id", "acme"}, codes.Unauthenticated, "CREDENTIAL_MISSING"},
	} {
		want := map[string]string{"CREDENTIAL_MISSING": "Bearer", "CREDENTIAL_INVALID": `Bearer error="invalid_token"`,
			"CREDENTIAL_EXPIRED": `Bearer error="invalid_token"`,
			"SCOPE_MISSING":      `Bearer error="insufficient_scope", scope="invoke"`}[test.reason]
		var trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), test.header...)
		_, err := docpb.NewCapabilityClient(f.conn).Invoke(ctx, request(gatewaytest.Echo, `{}`), grpc.Trailer(&trailer))
		if challenge := strings.Join(trailer.Get("www-authenticate"), ","); challenge != want {
			t.Errorf("%s: www-authenticate: %q", what, challenge)
		}
		if grpcstatus.Code(err) != test.code || errorInfo(err).GetReason() != test.reason {
			t.Errorf("%s: %v %v", what, err, errorInfo(err))
		}
		for _, protocol := range protocols {
			resp, body := post(t, protocol.client(f.gateway, t), f.gateway, "caps", `{"tool_name":"echo"}`,
				test.header...)
			if resp.StatusCode != status.HTTP(test.code) || !strings.Contains(body, test.reason) {
				t.Errorf("%s, %s: %d %s", what, protocol.name, resp.StatusCode, body)
			}
			if challenge := resp.Header.Get("WWW-Authenticate"); challenge != want {
				t.Errorf("%s, %s: WWW-Authenticate: %q", what, protocol.name, challenge)
			}
		}
	}
	for _, seen := range f.capability.Seen() {
		if seen.Metadata.Get("authorization") != nil || seen.Metadata.Get("x-api-key") != nil {
			t.Errorf("the backend saw %v", seen.Metadata)
		}
	}
	if n := len(f.capability.Seen()); n != 4*3 {
		t.Errorf("%d calls reached the backend, want 12", n)
	}
}

// TestKeyDeterminesTheCaller: a key determines the caller's identity, which only the log receives. The second call of
// a translated upload has the same caller.
func TestKeyDeterminesTheCaller(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		ring := newKeyring()
		f := keyed(t, ring, client, backend)
		said := []string{"x-tenant-id", "globex", "x-user-id", "ann", "x-agent-id", "bot"}
		for i, test := range []struct{ key, user, agent string }{{"acme", "", ""}, {"orchestrator", "ann", "bot"}} {
			ctx := metadata.AppendToOutgoingContext(bearer(to(t.Context(), "caps"), ring.credentials[test.key]),
				said...)
			if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
				t.Fatal(err)
			}
			again := func() error { return second(f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`))) }
			if filed(client, backend) {
				again = func() error { return second(f.client.Upload(ctx, gatewaytest.File{Data: []byte("x")})) }
			}
			check.Must(t, again())
			f.gateway.Log.Calls(t, 2*i+2) // log lines may be written after the responses of the next calls
		}
		for i, line := range f.gateway.Log.Calls(t, 4) {
			key, user, agent := ring.credentials["acme"], "", ""
			if i >= 2 {
				key, user, agent = ring.credentials["orchestrator"], "ann", "bot"
			}
			if line.Text("tenant") != "acme" || line.Text("key") != key[3:19] || line.Text("user") != user ||
				line.Text("agent") != agent {
				t.Errorf("%d: %v", i, line)
			}
		}
		for _, seen := range f.capability.Seen() {
			for _, name := range append([]string{"authorization", "x-capgate-ticket", "x-capgate-caller"}, said[0],
				said[2], said[4]) {
				if got := seen.Metadata.Get(name); got != nil {
					t.Errorf("%s: the backend saw %s: %q", seen.Path, name, got)
				}
			}
		}
	})
}

// TestTheGatewayNeedsNoKey: neither the gateway's own calls nor those of load balancers and tools need a key.
func TestTheGatewayNeedsNoKey(t *testing.T) {
	t.Parallel()
	f := keyed(t, newKeyring(), call.Doc, call.Live)
	if _, err := f.gateway.Invoke(t.Context(), "caps", request(gatewaytest.Echo, `{}`)); err != nil {
		t.Error(err)
	}
	if _, err := healthpb.NewHealthClient(f.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	stream, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	if err == nil {
		list := &reflectionpb.ServerReflectionRequest_ListServices{}
		err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: list})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Error(err)
	}
	if _, _, err := f.client.Healthcheck(to(t.Context(), "caps")); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("a capability's health: %v", err)
	}
}

// TestSecretsOfKeysStayInside: no log, metric, error or response contains a key's secret.
func TestSecretsOfKeysStayInside(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := keyed(t, ring, call.Doc, call.Live)
	var output strings.Builder
	canary := strings.Repeat("canary77", 4)
	shown := append(slices.Collect(func(yield func(string) bool) {
		for _, c := range ring.credentials {
			if !yield(c) {
				return
			}
		}
	}), tenant.Credential(ring.keys[0].ID, canary), "cg_"+canary)
	for _, credential := range shown {
		for _, header := range [][2]string{{"authorization", "Bearer " + credential}, {"x-api-key", credential},
			{"authorization", credential}, {"authorization", "Basic " + credential}} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), header[0], header[1])
			_, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`))
			output.WriteString(grpcstatus.Convert(err).Proto().String())
			_, err = f.client.Upload(to(ctx, "caps"), gatewaytest.File{Data: []byte("x")})
			output.WriteString(grpcstatus.Convert(err).Proto().String())
			resp, body := post(t, f.gateway.HTTP1(t), f.gateway, "caps", `{"tool_name":"echo"}`, header[0], header[1])
			output.WriteString(body)
			_ = resp.Header.Write(&output)
		}
	}
	f.gateway.Log.Calls(t, 3*4*len(shown))
	output.WriteString(f.gateway.Log.String())
	_, page := f.gateway.Admin(t, "/metrics")
	output.WriteString(page)
	for _, seen := range f.capability.Seen() {
		for name, values := range seen.Metadata {
			output.WriteString(name + strings.Join(values, " "))
		}
	}
	for _, credential := range shown {
		if secret := credential[len(credential)-32:]; strings.Contains(output.String(), secret) {
			t.Errorf("the secret of %s is disclosed", credential)
		}
	}
}

// TestTenantsAreCountedApart: calls are counted by tenant, including translated ones and those over JSON. Calls
// with a rejected credential count for no tenant.
func TestTenantsAreCountedApart(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	f := keyed(t, ring, call.Doc, call.Live)
	acme, globex := bearer(t.Context(), ring.credentials["acme"]), bearer(t.Context(), ring.credentials["globex"])
	if _, err := f.client.Invoke(acme, request(gatewaytest.Echo, `{}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Upload(to(globex, "caps"), gatewaytest.File{Name: "a"}); err != nil { // translated
		t.Fatal(err)
	}
	if _, err := f.client.Invoke(bearer(t.Context(), tenant.Credential("mzxw6ytboi4tcmrt", strings.Repeat("a", 32))),
		request(gatewaytest.Echo, `{}`)); err == nil {
		t.Fatal("an unknown key is accepted")
	}
	if _, err := f.client.Invoke(bearer(t.Context(), ring.credentials["reader"]),
		request(gatewaytest.Echo, `{}`)); err == nil {
		t.Fatal("a key without the scope is accepted")
	}
	f.gateway.Log.Calls(t, 4)
	samples := f.gateway.Metrics(t)
	for series, want := range map[string]float64{
		`capgate_tenant_calls_total{code="OK",tenant="acme"}`:                1,
		`capgate_tenant_calls_total{code="OK",tenant="globex"}`:              1,
		`capgate_tenant_calls_total{code="PERMISSION_DENIED",tenant="acme"}`: 1,
		`capgate_tenant_calls_in_flight{tenant="acme"}`:                      0,
		`capgate_tenant_calls_in_flight{tenant="globex"}`:                    0,
	} {
		if got, there := samples[series]; !there || got != want {
			t.Errorf("%s is %v (%t), want %v", series, got, there, want)
		}
	}
	for series := range samples {
		if strings.HasPrefix(series, "capgate_tenant_calls_total") && strings.Contains(series, "UNAUTHENTICATED") {
			t.Errorf("a rejected caller is counted as a tenant: %s", series)
		}
	}
}
