package gateway_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// credentialDoors is a gateway whose callers and operators authenticate with keys, or with tokens of an issuer,
// at every door.
type credentialDoors struct {
	gateway *gatewaytest.Gateway
	ring    *keyring
	client  gatewaytest.Client
}

// startCredentialDoors runs the gateway until the test ends. v verifies tokens.
func startCredentialDoors(t *testing.T, v tenant.Authenticator) *credentialDoors {
	t.Helper()
	ring := &keyring{}
	ring.issue("acme", "acme", tenant.Invoke|tenant.Read|tenant.RoleViewer, nil)
	ring.issue("other", "acme", tenant.Invoke|tenant.Read|tenant.RoleViewer, nil)
	ring.authenticator()
	by := tenant.NewAuthenticators(tenant.Sources{File: ring.issued, Tokens: v})
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = by
		o.Guard = guard.New(guard.Config{Authenticators: []guard.Authenticator{guard.NewTenants(by)}})
	})
	return &credentialDoors{f.gateway, ring, gatewaytest.NewClient(f.gateway.Conn(t), 0)}
}

// reply is the response at one door.
type reply struct {
	outcome          string // of the credential: "unauthenticated", "unavailable", or "" if it was accepted
	challenge, after string // headers
	text             string
}

// outcomes maps codes of HTTP and gRPC to the outcome of a credential.
var outcomes = map[int]string{http.StatusUnauthorized: "unauthenticated", int(codes.Unauthenticated): "unauthenticated",
	http.StatusServiceUnavailable: "unavailable", int(codes.Unavailable): "unavailable"}

// ask sends a request to each door; header holds names and values in turn.
func (d *credentialDoors) ask(t *testing.T, header ...string) map[string]reply {
	t.Helper()
	const call = `{"capabilityId":"caps","toolName":"echo"}`
	web := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(call)))) + call
	all := map[string]reply{}
	for _, p := range protocols {
		for name, door := range map[string]struct{ method, path, typ, body string }{
			"JSON":           {"POST", "/v1/capabilities/caps/tools/echo", "application/json", `{}`},
			"JSON list":      {"GET", "/v1/capabilities", "", ""},
			"OpenAPI":        {"GET", "/openapi.json", "", ""},
			"MCP":            {"POST", "/mcp", "application/json", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
			"MCP stream":     {"GET", "/mcp", "", ""},
			"Connect":        {"POST", "/selu.capability.Capability/Invoke", "application/json", call},
			"Connect stream": {"POST", "/selu.capability.Capability/StreamInvoke", "application/connect+json", web},
			"gRPC-Web":       {"POST", "/selu.capability.Capability/Invoke", "application/grpc-web+json", web},
		} {
			all[name+" over "+p.name] = fetchDoor(t, p.client(d.gateway, t), door.method, d.gateway.URL(door.path),
				door.typ, door.body, header)
		}
	}
	all["admin API"] = fetchDoor(t, clienttest.HTTP, "GET", "http://"+d.gateway.AdminAddr+"/v1/limits", "", "", header)
	_, err := d.client.Invoke(metadata.AppendToOutgoingContext(t.Context(), header...),
		&docpb.InvokeRequest{CapabilityId: "caps", ToolName: "echo"})
	all["gRPC"] = reply{outcome: outcomes[int(grpcstatus.Code(err))], text: grpcstatus.Convert(err).Message(),
		after: status.RetryAfter(status.DetailsOf(err).RetryAfter.Seconds())}
	return all
}

// fetchDoor makes a request. It does not read a stream of events.
func fetchDoor(t *testing.T, client *http.Client, method, url, typ, body string, header []string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	check.Must(t, err)
	if typ != "" {
		req.Header.Set("Content-Type", typ)
	}
	if strings.HasSuffix(url, "/mcp") {
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	of := resp.StatusCode
	if code, err := strconv.Atoi(resp.Header.Get("Grpc-Status")); err == nil {
		of = code
	}
	r := reply{outcome: outcomes[of], challenge: resp.Header.Get("WWW-Authenticate"),
		after: resp.Header.Get("Retry-After")}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return r
	}
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	r.text = string(text)
	var end struct { // of a Connect stream, after a five-byte prefix
		Error    struct{ Code string }
		Metadata map[string][]string
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/connect+") &&
		json.Unmarshal(text[5:], &end) == nil {
		r.outcome = end.Error.Code
		r.after = strings.Join(end.Metadata["Retry-After"], "")
	}
	return r
}

// TestCredentialsHaveOneReading: a key or token in either header, or in both, is the same credential at every
// door.
func TestCredentialsHaveOneReading(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	d := startCredentialDoors(t, verifier(t, i))
	key, other, token := d.ring.credentials["acme"], d.ring.credentials["other"], i.Token(t, nil)
	for what, c := range map[string]struct {
		header []string
		good   bool
	}{
		"a key":         {[]string{"authorization", "Bearer " + key}, true},
		"a token":       {[]string{"authorization", "Bearer " + token}, true},
		"a key alone":   {[]string{"x-api-key", key}, true},
		"a token alone": {[]string{"x-api-key", token}, true},
		"a key twice":   {[]string{"authorization", "Bearer " + key, "x-api-key", key}, true},
		"a token twice": {[]string{"authorization", "Bearer " + token, "x-api-key", token},
			true},
		"a key, with another service's": {[]string{"authorization", "Bearer " + key, "x-api-key", "sk-other"},
			true},
		"a token, with another service's": {[]string{"authorization", "Bearer " + token, "x-api-key", "SG.a.b"},
			true},
		"two keys": {[]string{"authorization", "Bearer " + key, "x-api-key", other},
			false},
		"a key and a token": {[]string{"authorization", "Bearer " + key, "x-api-key", token},
			false},
		"a token and a key": {[]string{"authorization", "Bearer " + token, "x-api-key", key},
			false},
		"two keys alone":                         {[]string{"x-api-key", key, "x-api-key", other}, false},
		"another service's alone":                {[]string{"x-api-key", "sk-other"}, false},
		"another service's before a key":         {[]string{"x-api-key", "sk-other", "x-api-key", key}, false},
		"an empty one":                           {[]string{"x-api-key", ""}, false},
		"another scheme":                         {[]string{"authorization", "Basic YTpi"}, false},
		"another scheme, with a key":             {[]string{"authorization", "Basic YTpi", "x-api-key", key}, false},
		"an unknown key":                         {[]string{"x-api-key", "cg_x"}, false},
		"a token whose signature does not match": {[]string{"x-api-key", token[:len(token)-8] + "AAAAAAAA"}, false},
	} {
		for door, r := range d.ask(t, c.header...) {
			if want := map[bool]string{false: "unauthenticated"}[c.good]; r.outcome != want ||
				r.challenge != "" && r.challenge != `Bearer error="invalid_token"` && !strings.HasPrefix(door, "MCP") {
				t.Errorf("%s, %s: %+v", what, door, r)
			}
			for _, secret := range []string{key, other, token, "sk-other", "SG.a.b"} {
				if strings.Contains(r.text, secret) {
					t.Errorf("%s, %s: the response contains the credential", what, door)
				}
			}
		}
	}
}

// TestNewKeysWhileTheIssuerIsAway: if the key of a token cannot be fetched, every door responds with a retry
// delay, and the log has nothing of the token. A forged token with a known key is still rejected.
func TestNewKeysWhileTheIssuerIsAway(t *testing.T) {
	t.Parallel()
	i := issuertest.Start(t)
	v := verifier(t, i)
	d := startCredentialDoors(t, v)
	all := func(what, outcome, after string, header ...string) {
		t.Helper()
		for door, r := range d.ask(t, header...) {
			if r.outcome != outcome || r.after != after || outcome == "unavailable" && r.challenge != "" {
				t.Errorf("%s, %s: %+v", what, door, r)
			}
		}
	}
	known := i.Token(t, nil)
	all("a known key", "", "", "authorization", "Bearer "+known)
	i.Behave(t, "500")
	i.Rotate(t, true)
	fresh := i.Token(t, nil)
	check.Holds(t, "the verifier", func() bool { return !v.Stats()[0].Up })
	all("a new key", "unavailable", "5", "authorization", "Bearer "+fresh)
	all("a new key, alone", "unavailable", "5", "x-api-key", fresh)
	all("a known key still", "", "", "authorization", "Bearer "+known)
	all("a forged token", "unauthenticated", "", "authorization", "Bearer "+known[:len(known)-8]+"AAAAAAAA")
	i.Behave(t, "")
	check.Holds(t, "the new key's token", func() bool {
		_, refusal := v.Authenticate(t.Context(), tenant.Credentials{Credential: fresh})
		return refusal == nil
	})
	all("the issuer is back", "", "", "authorization", "Bearer "+fresh)
	unknown := i.Sign(t, "ES256", map[string]any{"alg": "ES256", "kid": "unknown"}, i.Claims(nil))
	all("a key that the issuer does not have", "unauthenticated", "", "authorization", "Bearer "+unknown)
	if text := d.gateway.Log.String(); strings.Contains(text, fresh) || strings.Contains(text, unknown) {
		t.Error("the log has a token")
	}
}
