package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// curled is the response that curl received.
type curled struct {
	status  int
	version string // of HTTP
	header  http.Header
	body    string
}

// curl makes a request with the installed curl, ignoring its configuration files.
func curl(t *testing.T, args ...string) curled {
	t.Helper()
	dir := t.TempDir()
	head, body := filepath.Join(dir, "head"), filepath.Join(dir, "body")
	cmd := exec.CommandContext(t.Context(), "curl",
		append([]string{"-q", "-sS", "--noproxy", "*", "-D", head, "-o", body, "-w", "%{http_code} %{http_version}"},
			args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %.200q: %v", args, err)
	}
	var c curled
	if _, err := fmt.Sscan(string(out), &c.status, &c.version); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	text, err := os.ReadFile(head)
	check.Must(t, err)
	blocks := strings.Split(strings.TrimSpace(string(text)), "\r\n\r\n") // 100 has a header of its own
	_, fields, _ := strings.Cut(blocks[len(blocks)-1], "\r\n")
	parsed, err := textproto.NewReader(bufio.NewReader(strings.NewReader(fields + "\r\n\r\n"))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	c.header = http.Header(parsed)
	if all, err := os.ReadFile(body); err == nil { // without a body there is no file
		c.body = string(all)
	}
	return c
}

func (c *curled) problem(t *testing.T) problem.Problem {
	t.Helper()
	var p problem.Problem
	if err := json.Unmarshal([]byte(c.body), &p); err != nil ||
		c.header.Get("Content-Type") != "application/problem+json" || p.Status != c.status {
		t.Errorf("not a problem document: %d %v %q: %v", c.status, c.header, c.body, err)
	}
	return p
}

// curlSpeaks lists curl's options for the versions of HTTP that it supports.
func curlSpeaks(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "curl", "--version").Output()
	if err != nil {
		t.Fatalf("curl is missing; make setup installs it: %v", err)
	}
	all := map[string]string{"1.1": "--http1.1"}
	if bytes.Contains(out, []byte("HTTP2")) {
		all["2"] = "--http2-prior-knowledge"
	}
	return all
}

// curlable starts a gateway for curl and returns the URL of its calls.
func curlable(t *testing.T) (*front, string) {
	t.Helper()
	f := startFront(t, call.Doc, call.Doc)
	return f, f.gateway.URL("/v1/capabilities/caps/")
}

// TestHTTPRulesByCurl: the JSON API follows the rules of HTTP.
func TestHTTPRulesByCurl(t *testing.T) {
	t.Parallel()
	for version, speak := range curlSpeaks(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f, calls := curlable(t)
			errors := f.gateway.URL("/docs/errors")
			ask := func(args ...string) curled {
				t.Helper()
				c := curl(t, append([]string{speak}, args...)...)
				if c.version != version || c.header.Get("X-Request-Id") == "" {
					t.Errorf("%q: HTTP/%s, %v", args, c.version, c.header)
				}
				return c
			}
			if c := ask(calls+"tools/echo", "-d", `{"a":1}`, "-H", "X-Request-Id: mine"); c.status != 200 ||
				c.body != `{"a":1}` || c.header.Get("X-Request-Id") != "mine" {
				t.Errorf("a call: %d %v %s", c.status, c.header, c.body)
			}
			if c := ask(calls+"tools/echo", "-d", `{}`, "-H", "X-Request-Id: "+
				strings.Repeat("x", 129)); c.status != 400 || c.problem(t).Reason != "INVALID_HEADER" {
				t.Errorf("a long id: %d %s", c.status, c.body)
			}
			health := ask(calls + "health")
			if c := ask("-I", calls+"health"); c.status != 200 || health.body == "" ||
				c.header.Get("Content-Length") != fmt.Sprint(len(health.body)) ||
				c.header.Get("ETag") != health.header.Get("ETag") {
				t.Errorf("HEAD: %d %v, of %v", c.status, c.header, health.header)
			}
			if c := ask("-X", "OPTIONS", calls+"invoke"); c.status != 204 || c.header.Get("Allow") != "POST, OPTIONS" ||
				c.body != "" {
				t.Errorf("OPTIONS: %d %v %q", c.status, c.header, c.body)
			}
			if c := ask("-X", "DELETE", calls+"invoke"); c.status != 405 || c.header.Get("Allow") != "POST, OPTIONS" ||
				c.problem(t).Reason != "METHOD_NOT_ALLOWED" {
				t.Errorf("DELETE: %d %v %s", c.status, c.header, c.body)
			}
			if c := ask(f.gateway.URL("/v1/nothing"), "-H", "X-Request-Id: lost"); c.status != 404 ||
				c.problem(t).Reason != "NO_SUCH_PATH" || c.problem(t).RequestID != "lost" {
				t.Errorf("an empty path: %d %s", c.status, c.body)
			}
			whole := ask(errors)
			tag := whole.header.Get("ETag")
			if c := ask(calls+"health", "-H", "If-None-Match: "+health.header.Get("ETag")); c.status != 304 ||
				c.body != "" {
				t.Errorf("If-None-Match of the health: %d %v", c.status, c.header)
			}
			if c := ask(errors, "-H", "If-None-Match: "+tag); tag == "" || c.status != 304 || c.body != "" ||
				c.header.Get("ETag") != tag {
				t.Errorf("If-None-Match: %d %v %.99q; tag %+v", c.status, c.header, c.body, tag)
			}
			if c := ask(errors, "-H", `If-None-Match: "another"`); c.status != 200 || c.body != whole.body {
				t.Errorf("If-None-Match of another caller's ETag: %d", c.status)
			}
			if c := ask("--path-as-is", f.gateway.URL("/v1/../docs/errors")); c.status != 404 ||
				c.problem(t).Reason != "NO_SUCH_PATH" {
				t.Errorf("..: %d %s", c.status, c.body)
			}
		})
	}
}

// TestCompressionByCurl: curl decompresses responses to what was sent, and its compressed requests are
// decompressed.
func TestCompressionByCurl(t *testing.T) {
	t.Parallel()
	for version, speak := range curlSpeaks(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			_, calls := curlable(t)
			args := `{"text":"` + strings.Repeat("an answer that is long enough ", 99) + `"}`
			for _, coding := range []string{"gzip", "zstd", ""} {
				c := curl(t, speak, calls+"tools/echo", "-d", args, "--compressed", "-H", "Accept-Encoding: "+coding)
				if got := c.header.Get("Content-Encoding"); got != coding || c.body != args ||
					!slices.Contains(c.header.Values("Vary"), "Accept-Encoding") {
					t.Errorf("%q: %d %v, %d bytes", coding, c.status, c.header, len(c.body))
				}
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			if _, err := z.Write([]byte(args)); err != nil {
				t.Fatal(err)
			}
			check.Must(t, z.Close())
			file := filepath.Join(t.TempDir(), "args.gz")
			check.Must(t, os.WriteFile(file, packed.Bytes(), 0o600))
			if c := curl(t, speak, calls+"tools/echo", "-H", "Content-Encoding: gzip", "--data-binary",
				"@"+file); c.status != 200 || c.body != args {
				t.Errorf("a request by gzip: %d %.99s", c.status, c.body)
			}
		})
	}
}

// TestLimitsByCurl: a request that is too large, too deeply nested or has duplicate members gets a problem
// document.
func TestLimitsByCurl(t *testing.T) {
	t.Parallel()
	for version, speak := range curlSpeaks(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f, calls := curlable(t)
			dir := t.TempDir()
			// 64 KiB of short fields, each of which counts 32 bytes more: the longest list that curl can send
			// over HTTP/2
			var many strings.Builder
			for i := range 2000 {
				fmt.Fprintf(&many, "X%d: y\n", i)
			}
			nested := func(levels int) string {
				return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
			}
			for name, text := range map[string]string{
				"deep": nested(101), "large": `{"a":"` + strings.Repeat("x", 16<<20) + `"}`, "fits": nested(100),
				"headers": many.String(),
			} {
				check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			file := func(name string) string { return "@" + filepath.Join(dir, name) }
			for name, test := range map[string]struct {
				args   []string
				status int
				reason string
			}{
				"100 levels":   {[]string{"--data-binary", file("fits")}, 200, ""},
				"101 levels":   {[]string{"--data-binary", file("deep")}, 400, "INVALID_BODY"},
				"a name twice": {[]string{"-d", `{"a":1,"b":{"c":1,"c":2}}`}, 400, "AMBIGUOUS_ARGUMENTS"},
				"16 MiB":       {[]string{"--data-binary", file("large"), "-H", "Expect:"}, 413, "BODY_TOO_LARGE"},
				"16 MiB, asked": {[]string{"--data-binary", file("large"), "-H", "Expect: 100-continue"}, 413,
					"BODY_TOO_LARGE"},
				"16 MiB, pieces": {[]string{"--data-binary", file("large"), "-H", "Transfer-Encoding: chunked"}, 413,
					"BODY_TOO_LARGE"},
				"headers": {[]string{"-H", file("headers")}, 431, "HEADER_TOO_LARGE"},
			} {
				if version == "2" && test.status == 413 {
					continue // this curl does not read the response of a server that rejects the body while it is sent
				}
				c := curl(t, append([]string{speak, calls + "tools/echo"}, test.args...)...)
				if c.status != test.status || c.version != version ||
					test.reason != "" && c.problem(t).Reason != test.reason {
					t.Errorf("%s: HTTP/%s %d %v %.200s", name, c.version, c.status, c.header, c.body)
				}
			}
			if c := curl(t, speak, "-I", f.gateway.URL("/docs/errors"), "-H", file("headers")); c.status != 431 {
				t.Errorf("HEAD with long headers: %d", c.status)
			}
			if c := curl(t, speak, calls+"tools/echo", "-d", "{}"); c.status != 200 {
				t.Errorf("after all that: %d %s", c.status, c.body)
			}
			if version == "1.1" { // over HTTP/2 the connection ends; curl cannot send that much
				if c := curl(t, speak, f.gateway.URL("/docs/errors"), "-H", "X: "+
					strings.Repeat("x", 65<<10)); c.status != 431 || c.problem(t).Reason != "HEADER_TOO_LARGE" {
					t.Errorf("a long field: %d %s", c.status, c.body)
				}
			}
			if n := len(f.capability.Seen()); n != 2 {
				t.Errorf("the backend got %d calls", n)
			}
		})
	}
}

// TestProblemsNameTheirTrace: a problem names the trace of the caller, or else the one that the gateway started
// for the call and exported to the collector.
func TestProblemsNameTheirTrace(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			t.Parallel()
			for name, test := range map[string]struct {
				sample float64
				parent string
				want   string // of the problem; "new" means started by the gateway
				spans  int
			}{
				"begun here":      {1, "", "new", 1},
				"not traced":      {0, "", "", 0},
				"the caller's":    {0, sampled, aTrace, 1},
				"not to be read":  {1, "00-" + aTrace, "new", 1},
				"not recorded":    {1, ignored, aTrace, 0},
				"tool that fails": {1, "", "new", 2},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					f := tracedFront(t, test.sample, call.Doc, nil)
					capability, tool := "none", gatewaytest.Echo
					if test.spans == 2 {
						capability, tool = "caps", gatewaytest.Fail
					}
					resp, body := post(t, protocol.client(f.gateway, t), f.gateway, capability, `{"tool_name":"`+tool+
						`"}`, tracing.Traceparent, test.parent, "Prefer", "errors=http")
					var p problem.Problem
					if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode < 400 {
						t.Fatalf("%d %s: %v", resp.StatusCode, body, err)
					}
					line := f.gateway.Log.Calls(t, 1)[0]
					if p.TraceID != line.Text("trace_id") || (p.TraceID != "") != (test.want != "") ||
						test.want != "new" && p.TraceID != test.want {
						t.Errorf("the problem has the trace %q, and the log %q", p.TraceID, line.Text("trace_id"))
					}
					if test.spans == 0 {
						return
					}
					if all := f.collector.Spans(t, test.spans); all[0].Trace != p.TraceID ||
						test.want == "new" && len(all) == 2 && all[0].Parent != "" && all[1].Parent != "" {
						t.Errorf("the problem has the trace %q, and the spans are %v", p.TraceID, all)
					}
				})
			}
			// A request that did not become a call has no trace.
			f := tracedFront(t, 1, call.Doc, nil)
			if resp, body := post(t, protocol.client(f.gateway, t), f.gateway, "caps", `{`); resp.StatusCode != 400 ||
				strings.Contains(body, "trace_id") {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
		})
	}
}
