package registration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/registration"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const head = "id: weather\nimage: weather:1\n"

// padded returns a manifest of a given size, with characters that JSON escapes.
func padded(bytes int) string {
	return head + "#" + strings.Repeat("\t", bytes-len(head)-1)
}

// brings registers a backend that brings a manifest, over gRPC and JSON.
func (p *port) brings(t *testing.T, addr, text string) (*status.Status, int, string) {
	t.Helper()
	_, err := p.client.RegisterBackend(t.Context(),
		&capgatepb.RegisterBackendRequest{Capability: "weather", Addr: addr, Manifest: text})
	body, failed := json.Marshal(map[string]string{"capability": "weather", "addr": addr, "manifest": text})
	check.Must(t, failed)
	code, answer := p.Ask(t, http.MethodPost, "/v1/registrations", string(body))
	return status.Convert(err), code, answer
}

func TestManifest(t *testing.T) {
	t.Parallel()
	p := serve(t)
	for _, text := range []string{head, padded(manifest.MaxBytes)} {
		if st, code, body := p.brings(t, "10.0.0.7:1", text); st.Code() != codes.OK || code != http.StatusOK {
			t.Errorf("%d bytes: %v, %d %.300s", len(text), st, code, body)
		}
		if g := p.registry.Registrations()[0]; g.Manifest.Sum != registry.NewManifest(text).Sum ||
			p.registry.Manifest(g.Manifest.Sum) != text {
			t.Errorf("%d bytes: %v", len(text), g.Manifest)
		}
	}
	if code, body := p.Ask(t, http.MethodPost, "/v1/registrations",
		`{"capability": "weather", "addr": "10.0.0.7:1"}`); code != http.StatusOK {
		t.Error(code, body)
	}
	if g := p.registry.Registrations()[0]; g.Manifest != (registry.Manifest{}) {
		t.Errorf("registered without one: %v", g.Manifest)
	}
}

func TestManifestRefused(t *testing.T) {
	t.Parallel()
	p := serve(t)
	for _, test := range []struct {
		text, message string
		metadata      map[string]string
	}{
		{"id: weather\nimage: a b\nx: 1\n",
			`manifest.yaml:2: image: "a b" is not an image; write it as in ` +
				`ghcr.io/example/weather-lookup:1.0.0; manifest.yaml:3: x: unknown field`,
			map[string]string{"file": "manifest.yaml", "line": "2", "field": "image",
				"reason": `"a b" is not an image; write it as in ghcr.io/example/weather-lookup:1.0.0`}},
		{"id: climate\nimage: weather:1\n", "the manifest belongs to the capability climate, not to weather",
			map[string]string{"field": "id"}},
		{"[", "manifest.yaml:1: ", map[string]string{"file": "manifest.yaml", "line": "1", "field": "", "reason": ""}},
		{padded(manifest.MaxBytes + 2),
			"manifest.yaml:1: the file has 4194306 bytes; a manifest may have at most 4194304",
			map[string]string{"file": "manifest.yaml", "line": "1", "field": ""}},
		{head + "tools: [" + strings.Repeat("{name: '"+strings.Repeat("é", 1000)+"'}, ", 100) + "]", "; and ",
			map[string]string{"file": "manifest.yaml"}},
	} {
		st, code, body := p.brings(t, "10.0.0.7:1", test.text)
		var problem struct {
			Code, Reason, Detail string
			Metadata             map[string]string
		}
		if err := json.Unmarshal([]byte(body), &problem); err != nil || code != http.StatusBadRequest ||
			problem.Code != "INVALID_ARGUMENT" || problem.Reason != "MANIFEST_INVALID" {
			t.Errorf("%.60q: %d %.300s; err %+v; problem %+v", test.text, code, body, err, problem)
		}
		if st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), test.message) ||
			st.Message() != problem.Detail || len(st.Message()) > 2000 {
			t.Errorf("%.60q: %v", test.text, st)
		}
		info, _ := st.Details()[0].(*errdetails.ErrorInfo)
		if info.GetReason() != "MANIFEST_INVALID" || fmt.Sprint(info.GetMetadata()) != fmt.Sprint(problem.Metadata) {
			t.Errorf("%.60q: %v, %v", test.text, info, problem.Metadata)
		}
		for key, want := range test.metadata {
			if got, ok := info.GetMetadata()[key]; !ok || want != "" && got != want {
				t.Errorf("%.60q: %s is %q; ok %+v", test.text, key, got, ok)
			}
		}
	}
	if all := p.registry.Registrations(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// A long request is for manifests alone.
func TestOthersStaySmall(t *testing.T) {
	t.Parallel()
	p := serve(t)
	long := strings.Repeat("x", 20<<10)
	if _, err := p.client.WithdrawBackend(t.Context(),
		&capgatepb.WithdrawBackendRequest{Lease: long}); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	if code, body := p.Ask(t, http.MethodPost, "/v1/registrations:withdraw",
		`{"lease": "`+long+`"}`); code != http.StatusBadRequest || !strings.Contains(body, "INVALID_BODY") {
		t.Error(code, body)
	}
	huge := strings.Repeat("x", 5<<20)
	if _, err := p.client.RegisterBackend(t.Context(),
		&capgatepb.RegisterBackendRequest{Manifest: huge}); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	if code, body := p.Ask(t, http.MethodPost, "/v1/registrations",
		`{"manifest": "`+huge+huge+`"}`); code != http.StatusBadRequest || !strings.Contains(body, "INVALID_BODY") {
		t.Error(code, body)
	}
}

// A manifest is rejected if registrations may not have one.
func TestManifestForbidden(t *testing.T) {
	t.Parallel()
	rules := registry.Rules{Fleets: map[string]bool{"weather": true}, MaxTTL: 1 << 40, MaxPerFleet: 2,
		Permissions: registry.Permissions{Max: 2}}
	p := &port{registry: registry.New(&leases{all: map[registry.Key]string{}}, registry.Settings{Rules: rules},
		registry.Options{Manifest: registration.ReadManifest})}
	p.Services = gatewaytest.ServeOperators(t, registration.New(p.registry, nil))
	p.client = capgatepb.NewRegistryClient(p.Conn)
	st, code, body := p.brings(t, "10.0.0.7:1", head)
	if st.Code() != codes.PermissionDenied || code != http.StatusForbidden ||
		!strings.Contains(body, "MANIFEST_FORBIDDEN") || !strings.Contains(body, "registration.manifests is false") {
		t.Errorf("%v, %d %s", st, code, body)
	}
}
