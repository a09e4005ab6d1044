package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

type cityArgs struct {
	City string `json:"city"`
}

// mcpServer returns an MCP server with the tool weather, which requires a credential.
func mcpServer(t *testing.T, want *atomic.Value) (server *sdk.Server, url string) {
	t.Helper()
	server, web := newMCPServer(t, want)
	web.Start()
	return server, web.URL + "/mcp"
}

// newMCPServer is mcpServer before its start.
func newMCPServer(t *testing.T, want *atomic.Value) (server *sdk.Server, web *httptest.Server) {
	t.Helper()
	server = sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	addWeather(server, `{"type":"object"}`)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	web = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != want.Load() {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return server, web
}

func addWeather(server *sdk.Server, output string) {
	sdk.AddTool(server, &sdk.Tool{Name: "weather", Description: "tells the weather",
		OutputSchema: json.RawMessage(output)},
		func(_ context.Context, _ *sdk.CallToolRequest, in cityArgs) (*sdk.CallToolResult, any, error) {
			return nil, map[string]string{"weather": "sun in " + in.City}, nil
		})
}

// TestMCPServerOverTLS: an MCP server behind https is called with a credential from a file, and only if its
// certificate is trusted.
func TestMCPServerOverTLS(t *testing.T) {
	t.Parallel()
	var want atomic.Value
	want.Store("Bearer of-a-file")
	_, web := newMCPServer(t, &want)
	cert, caFile := selfSigned(t)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // of failing handshakes
	web.StartTLS()
	headers := writeConfig(t, "authorization: Bearer of-a-file\n")
	fleet := func(capability, secure string) string {
		return mcpFleet(capability, web.URL+"/mcp", "", "mcp_server: {headers_file: "+headers+"}", "tls: {"+secure+
			"}")
	}
	_, public, admin := serve(t, nil, "--config",
		writeConfig(t, mcpConfig("", fleet("trusted", "ca_file: "+caFile), fleet("untrusted", ""))))
	waitTools(t, public, "trusted__weather")
	if text := askMCP(t, public, "tools/call",
		`{"name":"trusted__weather","arguments":{"city":"Ulm"}}`); !strings.Contains(
		text, "sun in Ulm") {
		t.Error(text)
	}
	waitPage(t, "http://"+admin+"/v1/fleets", "certificate signed by unknown authority") // of the latest probe
	if text := askMCP(t, public, "tools/list", `{}`); strings.Contains(text, "untrusted__weather") {
		t.Error(text)
	}
}

// TestMCPServer: the tools of an MCP server are discovered, checked and called over JSON; a tool whose result
// schema changes requires approval, also after a restart, until the change is accepted; a new credential is
// used without a restart.
func TestMCPServer(t *testing.T) {
	t.Parallel()
	var want atomic.Value
	want.Store("Bearer one")
	server, url := mcpServer(t, &want)
	headers := writeConfig(t, "authorization: Bearer one\n")
	redis := patientRedis(redistest.Start(t).URL())
	text := strings.Replace(configOf(redis, url), "backends:",
		"protocol: mcp, validate_arguments: true, mcp_server: {headers_file: "+headers+"}, backends:", 1)
	file := writeConfig(t, text)
	p, public, _ := serve(t, nil, "--config", file)
	client := dial(t, public)
	until(t, client, "", "weather", codes.InvalidArgument) // the city is required
	post := func(body string) (int, string) {
		resp, err := clienttest.HTTP.Post("http://"+public+"/v1/capabilities/caps/tools/weather", "application/json",
			strings.NewReader(body))
		check.Must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		return resp.StatusCode, string(text)
	}
	if code, body := post(`{"city":"Ulm"}`); code != http.StatusOK || !strings.Contains(body, `"sun in Ulm"`) {
		t.Errorf("got %d %s", code, body)
	}
	if code, body := post(`{"city":7}`); code != http.StatusBadRequest {
		t.Errorf("got %d %s", code, body)
	}
	want.Store("Bearer two")
	check.Must(t, os.WriteFile(headers, []byte("authorization: Bearer two\n"), 0o600))
	untilCode := func(want int) {
		check.Until(t, "the response of a tool", func() (bool, string) {
			code, body := post(`{"city":"Ulm"}`)
			return code == want, fmt.Sprintf("%d %s, want %d", code, body, want)
		})
	}
	untilCode(http.StatusOK)
	server.RemoveTools("weather")
	addWeather(server, `{"type":"object","properties":{"weather":{"type":"string"}}}`)
	untilCode(http.StatusAccepted) // of an approval, as the tool has changed
	p.stop(t)

	p, public, admin := serve(t, nil, "--config", file)
	waitTools(t, public, "caps__weather")
	if code, body := post(`{"city":"Ulm"}`); code != http.StatusAccepted {
		t.Errorf("after a restart: %d %s", code, body)
	}
	var entry struct{ Tools []struct{ Hash string } }
	check.Must(t, json.Unmarshal([]byte(waitPage(t, "http://"+admin+"/v1/capabilities/caps", `"drifted":true`)),
		&entry))
	resp, err := clienttest.HTTP.Post("http://"+admin+"/v1/capabilities/caps/tools/weather:accept", "application/json",
		strings.NewReader(`{"hash":"`+entry.Tools[0].Hash+`"}`))
	check.Must(t, err)
	check.Must(t, resp.Body.Close())
	untilCode(http.StatusOK)
	p.stop(t)
}
