package cli

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oteltest"
)

// TestErrorsAreTheGatewaysOwn triggers the errors of every door and adapter, with canaries in all parts of a
// request. No error has a canary or words of a library, and each has a type, a code and a reason of the
// gateway. No canary is in a log, a span, a metric, an audit record, or in what another tenant and operators
// can read.
func TestErrorsAreTheGatewaysOwn(t *testing.T) {
	t.Parallel()
	g := startErring(t)
	g.callTools(t)
	g.callMethods(t)
	g.sendWrongBodies(t)
	g.sendWrongMCP(t)
	g.sendWrongFrames(t)
	g.watchOthers(t)
	g.program.stop(t)
	g.scan("log", g.program.stdout.String()+g.program.stderr.String())
	text, err := os.ReadFile(g.audit)
	check.Must(t, err)
	g.scan("audit log", string(text))
	for _, span := range g.collector.Spans(t, 1) {
		g.scan("spans", fmt.Sprintf("%+v", span))
	}
	g.search()
	if g.errors < 500 {
		t.Errorf("there were %d errors only", g.errors)
	}
	t.Logf("%d errors", g.errors)
}

// erring is a gateway with a fleet of each adapter, whose backends fail in many ways.
type erring struct {
	*canaries
	program              *program
	public, admin, audit string
	collector            *oteltest.Collector
	key, other           string // of two tenants
	number               string // a canary that is a number
	errors               int    // that were checked
}

// startErring starts the gateway.
func startErring(t *testing.T) *erring {
	t.Helper()
	g := &erring{canaries: newCanaries(t), collector: oteltest.Start(t), audit: filepath.Join(t.TempDir(), "audit")}
	for _, door := range []string{"arguments", "header", "config", "session", "idempotency key", "query", "echo"} {
		g.plant(door)
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1e14))
	check.Must(t, err)
	g.number = g.plantAs("number", n.Add(n, big.NewInt(1e14)).String())
	key := func() (line, key string) {
		id, secret := tenant.NewCredential()
		return fmt.Sprintf("{id: %s, hash: '%s', scopes: [invoke, read, approve, policy, admin], asserts: [user, "+
			"agent]}", id, tenant.HashOf(secret, nil)), tenant.Credential(id, secret)
	}
	var first, second string
	first, g.key = key()
	second, g.other = key()
	g.plantAs("credential", strings.Split(g.key, "_")[2])
	text := strings.Join(append([]string{
		"listen: 127.0.0.1:0", "admin: 127.0.0.1:0", "drain: {delay: 0s, timeout: 20s}", "policies: {}",
		"log: {level: debug}", "overload: {max_delay: 10s}", patientRedis(""), "identity: {store: redis}",
		"audit: {to: '" + g.audit + "'}", "traces: {endpoint: '" + g.collector.Addr + "', sample: 1}",
		"tenants:", "- {id: acme, capabilities: ['*'], keys: [" + first + "]}",
		"- {id: globex, capabilities: ['*'], keys: [" + second + "]}",
	}, g.serveBackends(t)...), "\n") + "\n"
	g.program, g.public, g.admin = serve(t, nil, "--config", writeConfig(t, text))
	check.Until(t, "the backends to be probed", func() (bool, string) {
		_, text := page(t, "http://"+g.admin+"/v1/fleets")
		return strings.Count(text, `"state":"up"`) >= upBackends, text
	})
	return g
}

// header returns request headers with canaries.
func (g *erring) header() []string {
	return []string{"x-api-key", g.key, "x-custom", g.planted["header"], "x-session-id", g.planted["session"]}
}

// libraries matches words of libraries: names of packages, types and functions, and error texts.
var libraries = regexp.MustCompile(strings.Join([]string{
	`\*?\b[a-z]\w+pb\.[A-Z]\w+`, `\*(?:proto|dynamicpb|json|jsonrpc|mcp|sdk|grpc|http|runtime|errors|fmt|url|net|tls)\.[A-Za-z]\w*`,
	`\bGo (?:struct|value)`, `\bjson: `, `\bproto:[ \x{a0}]`, `\bstrconv\.`, `rpc error: code`, `\bgrpc: `,
	`\bgrpc-go\b`, `\bdial tcp`, `context (?:deadline exceeded|canceled)`, `\bread tcp`, `\bwrite tcp`,
	`0xc0[0-9a-f]{8}`, `%!\w?\(`, `\bgoroutine \d`, `\bhttp: `, `\bhttp2: `, `\bnet/http`, `\btls: `, `\bx509: `,
	`\bhpack`, `\bgzip: `, `\bflate: `, `\bbase64: `, `illegal base64`, `\bhex: `, `invalid character`,
	`unexpected end of JSON`, `cannot unmarshal`, `unmarshal`, `invalid wire`, `wire-format`, `invalid syntax`,
	`value out of range`, `type mismatch, parameter`, `calling "`, `jsonrpc2`, `unsupported protocol scheme`,
	`invalid control character in URL`, `\bparse "`, `unexpected EOF`, `: EOF\b`, `protocol error: `,
	`invalid_argument: `, `method \w+ not supported`, `message size \d+`, `broken pipe`, `connection reset by`,
	`\bproto\.\w`, `<nil>`, `time: `, `runtime error`, `invalid UTF-8`, `mime: `, `multipart: `,
}, "|"))

// answer is a response of the gateway to a failing request.
type answer struct {
	what   string // the request
	status int    // of HTTP
	typ    string // of the content
	text   string
	head   string // of the response
	theirs bool   // the backend's own words, which may quote the request
}

// judge checks a response.
func (g *erring) judge(t *testing.T, a answer) {
	t.Helper()
	g.errors++
	text := a.text + a.head
	for door, secret := range g.planted {
		if strings.Contains(text, secret) && !(a.theirs && door == "echo") {
			t.Errorf("%s: the error quotes the %s: %d %s", a.what, door, a.status, clipped(text))
		}
	}
	if found := libraries.FindString(text); found != "" && !a.theirs {
		t.Errorf("%s: words of a library, %q: %d %s", a.what, found, a.status, clipped(text))
	}
}

// judgeHTTP checks a response over HTTP.
func (g *erring) judgeHTTP(t *testing.T, a answer) {
	t.Helper()
	if a.status < http.StatusBadRequest && !strings.HasPrefix(a.typ, "text/event-stream") &&
		a.typ != "application/x-ndjson" {
		return
	}
	g.judge(t, a)
	if a.status < http.StatusBadRequest {
		return
	}
	if typ, _, _ := strings.Cut(a.typ, ";"); typ != "application/problem+json" && typ != "application/json" {
		t.Errorf("%s: an error of the type %q: %d %s", a.what, a.typ, a.status, clipped(a.text))
		return
	}
	var p struct{ Code, Reason, Type string }
	if err := json.Unmarshal([]byte(a.text), &p); err != nil || p.Code == "" || p.Reason == "" && !a.theirs {
		t.Errorf("%s: an error without a code and a reason: %d %s", a.what, a.status, clipped(a.text))
	}
}

// judgeRPC checks a JSON-RPC response.
func (g *erring) judgeRPC(t *testing.T, a answer) {
	t.Helper()
	typ, _, _ := strings.Cut(a.typ, ";")
	if typ == "application/problem+json" { // of what precedes the door
		g.judgeHTTP(t, a)
		return
	}
	if a.text == "" && a.status < http.StatusBadRequest {
		return
	}
	if typ != "application/json" && typ != "text/event-stream" {
		t.Errorf("%s: an answer of the type %q: %d %s", a.what, a.typ, a.status, clipped(a.text))
	}
	for line := range strings.SplitSeq(a.text, "\n") {
		line = strings.TrimPrefix(line, "data: ")
		var m struct {
			JSONRPC string
			Error   *struct {
				Code    int64
				Message string
				Data    struct{ Reason string }
			}
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
			t.Errorf("%s: no JSON-RPC: %d %s", a.what, a.status, clipped(a.text))
		}
		if m.Error != nil || strings.Contains(line, `"isError":true`) {
			part := a
			part.text = line
			g.judge(t, part)
		}
		if e := m.Error; e != nil && (e.Code == 0 || e.Message == "" || e.Data.Reason == "" && !a.theirs) {
			t.Errorf("%s: an error without code, message or reason: %d %s", a.what, a.status, clipped(a.text))
		}
	}
}

func clipped(text string) string { return fmt.Sprintf("%.600q", text) }
