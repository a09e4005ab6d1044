package registration_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/admin/registration"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// port is an admin API that takes registrations of weather.
type port struct {
	*gatewaytest.Services
	client   capgatepb.RegistryClient
	registry *registry.Registry
}

func serve(t *testing.T) *port {
	t.Helper()
	rules := registry.Rules{Fleets: map[string]bool{"weather": true}, MinTTL: 5 * time.Second, MaxPerFleet: 2,
		Permissions: registry.Permissions{Max: 2, Manifests: true}}
	p := &port{registry: registry.New(&leases{all: map[registry.Key]string{}}, registry.Settings{Rules: rules},
		registry.Options{Manifest: registration.ReadManifest})}
	p.Services = gatewaytest.ServeOperators(t, registration.New(p.registry, nil))
	p.client = capgatepb.NewRegistryClient(p.Conn)
	return p
}

func TestRegisterRenewWithdraw(t *testing.T) {
	t.Parallel()
	p := serve(t)
	resp, err := p.client.RegisterBackend(t.Context(),
		&capgatepb.RegisterBackendRequest{Capability: "weather", Addr: "10.0.0.7:1", Session: "s", Zone: "z",
			Weight: proto.Int32(0), Dialect: "live", MaxConcurrent: 3})
	if err != nil || resp.GetLease() == "" || resp.GetTtl().AsDuration() != 30*time.Second ||
		!slices.Equal(resp.GetAddrs(), []string{"10.0.0.7:1"}) {
		t.Fatalf("%v, %v", resp, err)
	}
	g := p.registry.Registrations()[0]
	if g.Weight != 0 || g.Session != "s" || g.Zone != "z" || g.Dialect.String() != "live" || g.MaxConcurrent != 3 {
		t.Errorf("%+v", g)
	}
	// Registrations can be made over gRPC and renewed over JSON, and vice versa.
	code, body := p.Ask(t, http.MethodPost, "/v1/registrations",
		`{"capability": "weather", "addr": "10.0.0.7:1", "ttl": "6.5s", "lease": "`+resp.GetLease()+`"}`)
	renewed := new(capgatepb.RegisterBackendResponse)
	if err := protojson.Unmarshal([]byte(body), renewed); err != nil || code != 200 ||
		renewed.GetLease() != resp.GetLease() {
		t.Errorf("%d %s: %v; code %+v; renewed %+v", code, body, err, code, renewed)
	}
	if g := p.registry.Registrations()[0]; g.TTL != 6500*time.Millisecond || g.Weight != 100 || g.Session != "" {
		t.Errorf("%+v", g)
	}
	if code, body := p.Ask(t, http.MethodPost, "/v1/registrations:withdraw",
		`{"capability": "weather", "addr": "10.0.0.7:1", "lease": "`+resp.GetLease()+`"}`); code != 200 ||
		body != "{}" {
		t.Errorf("%d %s; code %+v", code, body, code)
	}
	if all := p.registry.Registrations(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// Both ways refuse for the same reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const register, withdraw = "/v1/registrations", "/v1/registrations:withdraw"
	p := serve(t)
	for _, addr := range []string{"10.0.0.1:1", "10.0.0.2:1"} {
		if code, body := p.Ask(t, http.MethodPost, register, `{"capability": "weather", "addr": "`+addr+
			`"}`); code != 200 {
			t.Fatal(code, body)
		}
	}
	for _, test := range []struct {
		path, body         string
		status             int
		code, reason, text string
	}{
		{register, `{}`, 400, "INVALID_ARGUMENT", "REGISTRATION_INVALID", "capability: "},
		{register, `{"capability": "Weather"}`, 400, "INVALID_ARGUMENT", "REGISTRATION_INVALID", "capability: "},
		{register, `{"capability": "nothing", "addr": "10.0.0.7:1"}`, 404, "NOT_FOUND", "CAPABILITY_UNKNOWN",
			"no fleet is configured for nothing"},
		{register, `{"capability": "weather"}`, 400, "INVALID_ARGUMENT", "REGISTRATION_INVALID",
			"addr: write host:port"},
		{register, `{"capability": "weather", "addr": "10.0.0.7"}`, 400, "INVALID_ARGUMENT", "REGISTRATION_INVALID",
			"addr: write host:port"},
		{register, `{"capability": "weather", "addr": "10.0.0.7:0"}`, 400, "INVALID_ARGUMENT",
			"REGISTRATION_INVALID", `addr: port "0"`},
		{register, `{"capability": "weather", "addr": "10.0.0.7:1", "ttl": "1s"}`, 400, "INVALID_ARGUMENT",
			"REGISTRATION_INVALID", "ttl: it must be from 5s"},
		{register, `{"capability": "weather", "addr": "10.0.0.7:1", "ttl": "3601s"}`, 400, "INVALID_ARGUMENT",
			"REGISTRATION_INVALID", "ttl: it must be from 5s"},
		{register, `{"capability": "weather", "addr": "10.0.0.7:1", "weight": 10001}`, 400, "INVALID_ARGUMENT",
			"REGISTRATION_INVALID", "weight: "},
		{register, `{"capability": "weather", "addr": "10.0.0.7:1", "dialect": "elder"}`, 400, "INVALID_ARGUMENT",
			"REGISTRATION_INVALID", "dialect: "},
		{register, `{"capability": "weather", "addr": "10.0.0.7:1", "max_concurrent": -1}`, 400, "INVALID_ARGUMENT",
			"REGISTRATION_INVALID", "max_concurrent: "},
		{register, `{"capability": "weather", "addr": "127.0.0.1:1"}`, 403, "PERMISSION_DENIED", "ADDRESS_FORBIDDEN",
			"127.0.0.1 is loopback"},
		{register, `{"capability": "weather", "addr": "localhost:1"}`, 403, "PERMISSION_DENIED", "ADDRESS_FORBIDDEN",
			"is loopback"},
		{register, `{"capability": "weather", "addr": "169.254.169.254:80"}`, 403, "PERMISSION_DENIED",
			"ADDRESS_FORBIDDEN", "is link-local"},
		{register, `{"capability": "weather", "addr": "[fd00:ec2::254]:80"}`, 403, "PERMISSION_DENIED",
			"ADDRESS_FORBIDDEN", "is cloud metadata"},
		{register, `{"capability": "weather", "addr": "10.0.0.1:1", "lease": "another"}`, 400, "FAILED_PRECONDITION",
			"LEASE_SUPERSEDED", "another process"},
		{register, `{"capability": "weather", "addr": "10.0.0.3:1"}`, 429, "RESOURCE_EXHAUSTED",
			"REGISTRATIONS_FULL", "registration.max"},
		{withdraw, `{"capability": "weather", "addr": "10.0.0.1:1", "lease": "another"}`, 400, "FAILED_PRECONDITION",
			"LEASE_SUPERSEDED", "another process"},
		{withdraw, `{"capability": "weather", "addr": "10.0.0.7:1"}`, 404, "NOT_FOUND", "REGISTRATION_UNKNOWN",
			"is not registered"},
		{withdraw, `{"capability": "weather"}`, 400, "INVALID_ARGUMENT", "REGISTRATION_INVALID",
			"addr: write host:port"},
	} {
		var problem struct {
			Code, Reason, Detail string
			Metadata             map[string]string
		}
		got, body := p.Ask(t, http.MethodPost, test.path, test.body)
		if err := json.Unmarshal([]byte(body), &problem); err != nil || got != test.status ||
			problem.Code != test.code || problem.Reason != test.reason || !strings.Contains(problem.Detail, test.text) {
			t.Errorf("%s: %d %s; err %+v", test.body, got, body, err)
		}
		err := p.call(t, test.path == withdraw, test.body)
		st := status.Convert(err)
		if code.Code(st.Code()).String() != test.code || st.Message() != problem.Detail || len(st.Details()) == 0 {
			t.Errorf("%s: %v; st %+v", test.body, err, st)
			continue
		}
		info, ok := st.Details()[0].(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != "capgate.dev" || info.GetReason() != test.reason ||
			len(info.GetMetadata()) != len(problem.Metadata) {
			t.Errorf("%s: %v; ok %+v; info %+v", test.body, st.Details(), ok, info)
		}
	}
}

// call sends a request, written as JSON, over gRPC.
func (p *port) call(t *testing.T, withdraw bool, body string) error {
	t.Helper()
	if withdraw {
		req := new(capgatepb.WithdrawBackendRequest)
		check.Must(t, protojson.Unmarshal([]byte(body), req))
		_, err := p.client.WithdrawBackend(t.Context(), req)
		return err
	}
	req := new(capgatepb.RegisterBackendRequest)
	check.Must(t, protojson.Unmarshal([]byte(body), req))
	_, err := p.client.RegisterBackend(t.Context(), req)
	return err
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	p := serve(t)
	const good = `{"capability": "weather", "addr": "10.0.0.7:1"}`
	for _, test := range []struct {
		path, body string
		header     []string
		status     int
	}{
		{"/v1/registrations", "[]", nil, 400},
		{"/v1/registrations", `{"capability": "weather", "adr": "10.0.0.7:1"}`, nil, 400},
		{"/v1/registrations", `{"ttl": "soon"}`, nil, 400},
		{"/v1/registrations:withdraw", `{"addr": "` + strings.Repeat("z", 20<<10) + `"}`, nil, 400},
		// another page in an operator's browser
		{"/v1/registrations", good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"/v1/registrations:renew", good, nil, 404},
		// over HTTP/1.1
		{"/capgate.v1.Registry/RegisterBackend", good, []string{"Content-Type", "application/grpc"}, 415},
	} {
		if code, body := p.Ask(t, http.MethodPost, test.path, test.body, test.header...); code != test.status ||
			code == 400 && !strings.Contains(body, "INVALID_BODY") {
			t.Errorf("%s %.60s: %d %s", test.path, test.body, code, body)
		}
	}
	if all := p.registry.Registrations(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

func TestReflection(t *testing.T) {
	t.Parallel()
	stream, err := reflectionpb.NewServerReflectionClient(serve(t).Conn).ServerReflectionInfo(t.Context())
	check.Must(t, err)
	list := &reflectionpb.ServerReflectionRequest_ListServices{}
	check.Must(t, stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: list}))
	resp, err := stream.Recv()
	if err != nil || !strings.Contains(resp.String(), "capgate.v1.Registry") {
		t.Errorf("%v, %v", resp, err)
	}
}
