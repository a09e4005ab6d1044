package cli

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// wrongBackend is a fleet whose backend is not what the fleet says.
type wrongBackend struct {
	name, fields, backend string
	tool                  string // that is called
	want                  []string
}

// wrongBackends starts the servers.
func wrongBackends(t *testing.T) []wrongBackend {
	t.Helper()
	var none atomic.Value
	none.Store("")
	_, web := newMCPServer(t, &none)
	mux := http.NewServeMux()
	mux.Handle("/mcp", web.Config.Handler)
	web.Config.Handler = mux
	web.Start()
	mux.HandleFunc("/forbidden", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"host not allowed: set ALLOWED_HOSTS"}`, http.StatusForbidden)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "internal", http.StatusForbidden)
	})
	mux.HandleFunc("/repeats", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "what is "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>welcome")
	})
	plain := grpctest.Start(t, grpctest.Options{})
	silent := grpctest.Start(t, grpctest.Options{Reflection: grpctest.NoReflection})
	descriptors := writeConfig(t, strings.ReplaceAll(string(grpctest.Descriptors), "demo.v1", "demo.v3"))
	headers := writeConfig(t, "authorization: Bearer of-the-gateway\n")
	grpcOf := func(methods string) string { return "protocol: grpc, grpc_service: {methods: [" + methods + "]}" }
	mcpAt := strings.TrimPrefix(web.URL, "http://")
	return []wrongBackend{
		{"package", grpcOf("demo.v2.Demo/*"), plain.Addr, "Echo",
			[]string{"no service demo.v2.Demo", "it has demo.v1.Demo"}},
		{"package-in-file", "protocol: grpc, grpc_service: {methods: [demo.v3.Demo/Echo], descriptor_file: " +
			descriptors + "}", plain.Addr, "Echo", []string{"no service demo.v3.Demo", "it has demo.v1.Demo"}},
		{"plain", "policy: allow", plain.Addr, "Echo", []string{"demo.v1.Demo", "set protocol: grpc"}},
		{"methods", grpcOf("demo.v1.Demo/Nope"), plain.Addr, "Nope",
			[]string{"no method demo.v1.Demo/Nope", "it has", "Echo"}},
		{"no-reflection", grpcOf("demo.v1.Demo/Echo"), silent.Addr, "Echo", []string{"grpc_service.descriptor_file"}},
		{"mcp-as-grpc", "policy: allow", mcpAt, "weather", []string{"HTTP/1", "set protocol: mcp"}},
		{"mcp-as-service", grpcOf("demo.v1.Demo/*"), mcpAt, "weather", []string{"HTTP/1", "set protocol: mcp"}},
		{"grpc-as-mcp", "protocol: mcp", "http://" + plain.Addr, "Echo", []string{"HTTP/2", "set protocol: grpc"}},
		{"path", "protocol: mcp", web.URL, "weather", []string{"HTTP 404", "most servers serve it at /mcp"}},
		{"forbidden", "protocol: mcp, mcp_server: {headers_file: " + headers + "}", web.URL + "/forbidden", "weather",
			[]string{"HTTP 403", "host not allowed: set ALLOWED_HOSTS"}},
		{"repeats", "protocol: mcp, mcp_server: {headers_file: " + headers + "}", web.URL + "/repeats", "weather",
			[]string{"HTTP 401", "mcp_server.headers_file"}},
		{"secret", "protocol: mcp", web.URL + "/secret", "weather", []string{"HTTP 403"}},
		{"page", "protocol: mcp", web.URL + "/page", "weather",
			[]string{"an HTML page", "most servers serve MCP at /mcp"}},
	}
}

// TestWrongBackends: the status, check --connect and the error of a call name the server that is at a backend's
// address, and the setting that fits it. None of them has the gateway's credential. The error of a call has neither the
// address nor any text that is not meant for a client.
func TestWrongBackends(t *testing.T) {
	t.Parallel()
	all := wrongBackends(t)
	text := ""
	for _, w := range all {
		policy := ", policy: allow"
		if strings.Contains(w.fields, "policy:") {
			policy = ""
		}
		text += fmt.Sprintf("  - {capability: %s, %s%s, backends: ['%s']}\n", w.name, w.fields, policy, w.backend)
	}
	file := writeConfig(t, mcpConfig("", text))
	_, public, admin := serve(t, nil, "--config", file)
	lacks := func(said string, want []string) bool {
		return slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(said, part) })
	}
	var checked string
	check.Until(t, "check --connect to have reached all backends", func() (bool, string) {
		var exit int
		if exit, _, checked = runProgram(t, nil, "check", "--connect", file); exit != exitRefused {
			t.Fatalf("check --connect: %d %s", exit, checked)
		}
		return !slices.ContainsFunc(all, func(w wrongBackend) bool {
			return lacks(lineOf(checked, "fleet "+w.name+":"), w.want)
		}), checked
	})
	for _, w := range all {
		t.Run(w.name, func(t *testing.T) {
			var status string
			check.Until(t, "the state of the backend", func() (bool, string) {
				_, status, _ = runProgram(t, nil, "status", "--admin", admin)
				status = lineOf(status, w.name+" ")
				return strings.Contains(status, " down ") && !lacks(status, w.want), status
			})
			var failed string
			// on a busy machine, a probe may time out meanwhile
			check.Until(t, "the error of a call", func() (bool, string) {
				exit, out, errs := runProgram(t, nil, "invoke", "--addr", public, w.name, w.tool)
				if failed = errs; exit == 0 || strings.Contains(failed, strings.TrimPrefix(w.backend, "http://")) ||
					strings.Contains(failed, "internal") {
					t.Fatalf("invoke: %d %s%s", exit, out, failed)
				}
				return !lacks(failed, w.want), failed
			})
			for place, said := range map[string]string{"status": status, "check": checked, "invoke": failed} {
				if strings.Contains(said, "of-the-gateway") {
					t.Errorf("%s has the credential: %q", place, said)
				}
			}
		})
	}
}

// TestConnect: check --connect reports a missing backend, and accepts one that serves what its fleet says.
func TestConnect(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	exit, out, errs := runProgram(t, nil, "check", "--connect", writeConfig(t, configOf("", backend)))
	if exit != 0 || !strings.Contains(out, "1 of 1 backend ready") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	exit, out, errs = runProgram(t, nil, "check", "--connect", writeConfig(t, configOf("", backend, "127.0.0.1:1")))
	if exit != exitRefused || !strings.Contains(errs, "fleet caps: backend 127.0.0.1:1: connection refused") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
}

// lineOf returns the first line of text that contains part; "" if there is none.
func lineOf(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
