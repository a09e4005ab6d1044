package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// keyMade plants the secret of a key that the gateway created.
func (g *secretive) keyMade(t *testing.T, door, credential string) (id string) {
	t.Helper()
	id, secret, ok := tenant.ParseCredential(strings.TrimSpace(credential))
	if !ok {
		t.Fatalf("%s is no key", door)
	}
	g.plantAs(door, secret)
	return id
}

// makeKeys creates and rotates keys in every way, and calls with each.
func (g *secretive) makeKeys(t *testing.T) {
	t.Helper()
	program := func(args ...string) string {
		t.Helper()
		exit, stdout, stderr := runProgram(t, nil, append(args, "--admin", g.admin)...)
		if exit != 0 {
			t.Fatal(args, exit, stderr)
		}
		g.scan("capgate "+args[0]+", standard error", stderr+"\n")
		return stdout
	}
	file := filepath.Join(t.TempDir(), "key")
	g.scan("capgate tenants", program("tenants", "create", "globex", "--capabilities", "*", "--limits",
		`{"calls_per_second": 100000}`))
	made := []string{program("keys", "create", "globex", "--scopes", "admin,invoke,read", "--name", "first")}
	made = append(made, program("keys", "rotate", "globex", g.keyMade(t, "key of the program", made[0])))
	g.keyMade(t, "key rotated by the program", made[1])
	program("keys", "create", "globex", "--out", file)
	text, err := os.ReadFile(file)
	check.Must(t, err)
	made = append(made, string(text))
	g.keyMade(t, "key in a file", made[2])

	conn, err := dialAdmin(g.admin)
	check.Must(t, err)
	defer conn.Close()
	client := capgatepb.NewTenantsClient(conn)
	created, err := client.CreateKey(t.Context(),
		&capgatepb.CreateKeyRequest{TenantId: "globex", Key: &capgatepb.Key{Scopes: []string{"invoke"}}})
	check.Must(t, err)
	rotated, err := client.RotateKey(t.Context(),
		&capgatepb.RotateKeyRequest{TenantId: "globex",
			KeyId: g.keyMade(t, "key of the API", created.GetCredential()), Grace: durationpb.New(time.Hour)})
	check.Must(t, err)
	g.keyMade(t, "key rotated by the API", rotated.GetCredential())
	made = append(made, created.GetCredential(), rotated.GetCredential(), g.keyOfJSON(t, strings.TrimSpace(made[0])))

	public := connectTo(t, g.public)
	defer public.Close()
	for _, key := range made {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.TrimSpace(key))
		_, err := docpb.NewCapabilityClient(public).Invoke(ctx,
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
		check.Must(t, err)
	}
	for _, args := range [][]string{{"tenants", "list"}, {"tenants", "show", "globex"}, {"keys", "list", "globex"}} {
		g.scan("capgate "+args[0], program(args...))
	}
	exit, stdout, stderr := runProgram(t, nil, "keys", "revoke", "globex", strings.TrimSpace(made[0]), "--admin",
		g.admin)
	if exit != exitUsage {
		t.Error("a whole key is accepted as its id:", exit, stdout)
	}
	g.scan("capgate keys", stdout+stderr)
}

// keyOfJSON creates a key over JSON at the public port.
func (g *secretive) keyOfJSON(t *testing.T, admin string) string {
	t.Helper()
	code, _, body := g.fetch(t, g.client(t, nil), http.MethodPost, "https://"+g.public+"/v1/tenants/globex/keys",
		`{"scopes":["invoke"]}`, "authorization", "Bearer "+admin)
	var made struct{ Credential string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || code != http.StatusOK {
		t.Fatal(code, body, err)
	}
	g.keyMade(t, "key of JSON", made.Credential)
	return made.Credential
}

// tokens returns headers with valid and invalid tokens of the issuer.
func (g *secretive) tokens(t *testing.T) (headers [][]string) {
	t.Helper()
	for door, change := range map[string]map[string]any{
		"a good token": {}, "an expired token": {"exp": time.Now().Add(-time.Hour).Unix()},
		"a token for somebody else":    {"aud": "other"},
		"a token of an unknown tenant": {"tenant_id": "nobody"},
	} {
		change["email"] = g.plant("claim of " + door)
		token := g.issuer.Token(t, change)
		g.plantAs("signature of "+door, token[strings.LastIndexByte(token, '.')+1:])
		headers = append(headers, []string{"authorization", "Bearer " + token})
	}
	token := g.issuer.Token(t, nil)
	return append(headers, []string{"authorization",
		"Bearer " + token[:strings.LastIndexByte(token, '.')+1] + g.plant("a wrong signature")})
}

// identifyOtherwise calls with certificates, and calls unknown methods.
func (g *secretive) identifyOtherwise(t *testing.T) {
	t.Helper()
	for _, name := range []string{"known", "unknown"} {
		cert := g.authority.Client(t, func(c *x509.Certificate) {
			c.Subject.CommonName = g.plant("subject of a client that is " + name)
			c.EmailAddresses = []string{g.plant("address of a client that is "+name) + "@example.org"}
		}, "spiffe://example.org/"+name)
		_, key := certtest.PEMOf(t, cert)
		g.plantAs("key of a client that is "+name, strings.Split(key, "\n")[1][20:60])
		conn := connectTo(t, g.public, cert)
		_, err := docpb.NewCapabilityClient(conn).Invoke(t.Context(),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
		if (err == nil) != (name == "known") {
			t.Errorf("a client that is %s: %v", name, err)
		}
		g.answered(err)
		_ = conn.Close()
	}
	public := connectTo(t, g.public)
	defer public.Close()
	operators, err := dialAdmin(g.admin)
	check.Must(t, err)
	defer operators.Close()
	query := "?token=" + g.plant("query of a method")
	for _, key := range []string{g.key, ""} {
		ctx := t.Context()
		if key != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", key)
		}
		for _, method := range []string{"/selu.capability.Capability/Invoke",
			"/selu.capability.v1.CapabilityService/Invoke", "/capgate.v1.Approvals/ListApprovals", "/no.Such/Method",
			"/"} {
			for _, conn := range []*grpc.ClientConn{public, operators} {
				err := conn.Invoke(ctx, method+query,
					&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo}, &docpb.InvokeResponse{})
				g.answered(err) // text of gRPC about an existing method is sent to the caller
			}
		}
	}
}

// contradictListener contradicts a listener in every place where a call may name something.
func (g *secretive) contradictListener(t *testing.T) {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+addressesOf(t, g.program)[0],
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	defer conn.Close()
	request := func() *docpb.InvokeRequest { return &docpb.InvokeRequest{ToolName: gatewaytest.Echo} }
	for _, name := range []string{"x-tenant-id", "x-user-id", "x-agent-id", "x-session-id", "x-api-key",
		"authorization"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), name, g.plant(name+" at a listener"))
		_, err := docpb.NewCapabilityClient(conn).Invoke(ctx, request())
		// The listener has no agent, and the key belongs to another service.
		if accepted := name == "x-agent-id" || name == "x-api-key"; (err == nil) != accepted {
			t.Errorf("%s: %v", name, err)
		}
		g.answered(err)
	}
	other := request()
	other.SessionId = g.plant("session at a listener")
	if _, err = docpb.NewCapabilityClient(conn).Invoke(t.Context(), other); err == nil {
		t.Error("another session than the listener's")
	}
	g.answered(err)
}

// throughProxy calls as a trusted proxy that sends more than it should.
func (g *secretive) throughProxy(t *testing.T) {
	t.Helper()
	addresses := []byte{127, 0, 0, 9, 127, 0, 0, 1, 0x30, 0x39, 0x1f, 0x90}
	header := func(secret string) string {
		body := append(bytes.Clone(addresses), 0x02, 0, byte(len(secret))) // TLV of an authority
		body = append(body, secret...)
		return "\r\n\r\n\x00\r\nQUIT\n\x21\x11" + string(binary.BigEndian.AppendUint16(nil, uint16(len(body)))) +
			string(body)
	}
	good := header(g.plant("PROXY header"))
	client := g.client(t, &good)
	for _, forwarded := range []string{g.plant("x-forwarded-for of a proxy"),
		"127.0.0.8, " + g.plant("x-forwarded-for behind an address")} {
		code, header, body := g.fetch(t, client, http.MethodGet, "https://"+g.public+"/v1/capabilities", "",
			"x-api-key", g.key, "x-forwarded-for", forwarded,
			"x-forwarded-host", g.plant("x-forwarded-host "+forwarded[:9]), "x-real-ip",
			g.plant("x-real-ip "+forwarded[:9]))
		g.scan("JSON", fmt.Sprintf("%d %v %s", code, header, body))
	}
	bad := header(g.plant("bad PROXY header"))
	for _, text := range []string{"PROXY TCP4 " + g.plant("PROXY header of version 1") + " 127.0.0.1 1 2\r\n",
		bad[:len(bad)-1], strings.Replace(bad, "\x21\x11", "\x21\x71", 1),
		g.plant("no PROXY header") + strings.Repeat(" ", 100)} {
		conn := g.dialAsProxy(t, text)
		_ = conn.(*net.TCPConn).CloseWrite() // the gateway may have ended it already
		answer, _ := io.ReadAll(conn)
		g.scan("connections that are ended", string(answer)+"\n")
		_ = conn.Close()
	}
}

func (g *secretive) dialAsProxy(t *testing.T, says string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(proxyHost)},
		Timeout: check.Patience}).DialContext(t.Context(), "tcp", g.public)
	check.Must(t, err)
	_, err = io.WriteString(conn, says)
	check.Must(t, err)
	check.Must(t, conn.SetDeadline(time.Now().Add(check.Patience)))
	return conn
}

// client returns an HTTP client that starts connections like a proxy, if header is set.
func (g *secretive) client(t *testing.T, proxy *string) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if proxy != nil {
		transport.DialContext = func(context.Context, string, string) (net.Conn,
			error) {
			return g.dialAsProxy(t, *proxy), nil
		}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: check.Patience}
}

func (g *secretive) fetch(t *testing.T, client *http.Client, method, url, body string, header ...string) (int,
	http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	check.Must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode, resp.Header, "" // it does not end
	}
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, resp.Header, string(text)
}

// queryEverything requests every route of both ports, with a secret in the query.
func (g *secretive) queryEverything(t *testing.T) {
	t.Helper()
	client, routes := g.client(t, nil), 0
	ask := func(method, target, body string) {
		routes++
		for _, base := range []string{"https://" + g.public, "http://" + g.admin} {
			code, header, text := g.fetch(t, client, method, base+target, body, "x-api-key", g.key, "content-type",
				"application/json")
			g.scan("JSON with a query", fmt.Sprintf("%d %v %s", code, header, text))
		}
	}
	query := "token=" + g.plant("query of a route")
	for _, file := range []protoreflect.FileDescriptor{
		capgatepb.File_capgate_v1_approvals_proto, capgatepb.File_capgate_v1_catalog_proto,
		capgatepb.File_capgate_v1_catalog_admin_proto, capgatepb.File_capgate_v1_engines_proto,
		capgatepb.File_capgate_v1_gateway_proto,
		capgatepb.File_capgate_v1_policies_proto, capgatepb.File_capgate_v1_registry_proto,
		capgatepb.File_capgate_v1_tenants_proto, capgatepb.File_capgate_v1_auditlog_proto,
		capgatepb.File_capgate_v1_calls_proto, capgatepb.File_capgate_v1_playground_proto,
		capgatepb.File_capgate_v1_summary_proto,
	} {
		for i := range file.Services().Len() {
			for m := range methodsOf(file.Services().Get(i)) {
				if hasJSON(m) {
					method, target, body := overHTTP(t, m, requestOf(t, m))
					ask(method, target+"&"+query, body)
				}
			}
		}
	}
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/v1/fleets", "/v1/limits",
		"/v1/backends/127.0.0.1:1", "/v1/webhooks/dead", "/v1/nothing", "/debug/pprof/", "/debug/pprof/nothing",
		"/debug/pprof/symbol"} {
		ask(http.MethodGet, path+"?"+query, "")
		ask(http.MethodPost, path+"?"+query, "{}")
	}
	if routes < 40 {
		t.Errorf("there are %d routes only", routes)
	}
}

func methodsOf(s protoreflect.ServiceDescriptor) func(func(protoreflect.MethodDescriptor) bool) {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		for i := range s.Methods().Len() {
			if !yield(s.Methods().Get(i)) {
				return
			}
		}
	}
}

// requestOf returns a request with the path parameters of a method's route.
func requestOf(t *testing.T, m protoreflect.MethodDescriptor) string {
	t.Helper()
	fields := map[string]any{}
	for name, value := range map[protoreflect.Name]any{"capability_id": "caps", "capability": "caps",
		"engine": "caps", "session_id": "s", "tool": "echo", "approval_id": "apr_x", "tenant_id": "nobody",
		"key_id": "abcdefghijklmnop"} {
		if f := m.Input().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind {
			fields[string(name)] = value
		}
	}
	if f := m.Input().Fields().ByName("tenant"); f != nil && f.Message() != nil {
		fields["tenant"] = map[string]any{"id": "nobody"}
	}
	text, err := json.Marshal(fields)
	check.Must(t, err)
	return string(text)
}
