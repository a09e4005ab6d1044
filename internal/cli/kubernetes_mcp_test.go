package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// mcpPod returns an MCP server with the tool weather at a path. It rejects requests with a Host other than its
// Service's.
func mcpPod(t *testing.T, path, service string) *httptest.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	addWeather(server, `{"type":"object"}`)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{DisableLocalhostProtection: true}) // a Service's name at 127.0.0.1
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := net.SplitHostPort(r.Host); r.URL.Path != path || host != service+".tools.svc" {
			http.Error(w, "not here: "+r.Host+r.URL.Path, http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// putWeb puts the slice of a pod behind a Service, with a port for metrics beside the one of the server.
func putWeb(t *testing.T, api *kubetest.Server, service string, web *httptest.Server) {
	t.Helper()
	_, text, err := net.SplitHostPort(web.Listener.Addr().String())
	check.Must(t, err)
	port, err := strconv.Atoi(text)
	check.Must(t, err)
	api.Put(kubetest.EndpointSlices, "tools", service, kubetest.WithPorts(kubetest.Slice(service, port,
		kubetest.Endpoint{Addr: "127.0.0.1", Pod: service}), kubetest.Object{"name": "metrics", "port": 9},
		kubetest.Object{"name": "web", "port": port, "appProtocol": "http"}))
}

// TestMCPServersInKubernetes: MCP servers are found in EndpointSlices, for a fleet with TLS and for a Service that
// announces the protocol. Requests and certificates have the name of the Service.
func TestMCPServersInKubernetes(t *testing.T) {
	t.Parallel()
	api := kubetest.Start(t)
	ca := certtest.New(t)
	secure := mcpPod(t, "/tools/mcp", "secure")
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Client(t, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}, "secure.tools.svc")}}
	secure.StartTLS()
	announced := mcpPod(t, "/mcp", "announced")
	announced.Start()
	putWeb(t, api, "secure", secure)
	putWeb(t, api, "announced", announced)
	api.Put(kubetest.Services, "tools", "announced", kubetest.Service(nil, "capgate.dev/capability=announced",
		"capgate.dev/protocol=mcp"))
	fleet := mcpFleet("secure", "", "", "kubernetes: {namespace: tools, service: secure, path: /tools/mcp}",
		"tls: {ca_file: "+writeConfig(t, ca.PEM)+"}")
	_, public, admin := serve(t, nil, "--config", writeConfig(t, mcpConfig(fmt.Sprintf("registration: {allow: "+
		"[127.0.0.0/8]}\nkubernetes: {api: {address: '%s', ca_file: %s, token_file: %s}, watch: {namespaces: [tools], "+
		"policy: allow}}", api.URL, api.CAFile, api.TokenFile), strings.Replace(fleet, "backends: [''], ", "", 1))))
	waitTools(t, public, "secure__weather", "announced__weather")
	for _, name := range []string{"secure", "announced"} {
		text := askMCP(t, public, "tools/call", `{"name":"`+name+`__weather","arguments":{"city":"Ulm"}}`)
		if !strings.Contains(text, "sun in Ulm") {
			t.Errorf("%s: %s", name, text)
		}
	}
	api.Delete(kubetest.Services, "tools", "announced")
	check.Until(t, "no fleet", func() (bool, string) {
		_, body := page(t, "http://"+admin+"/readyz?verbose")
		return !strings.Contains(body, `"capability":"announced"`), body
	})
}
