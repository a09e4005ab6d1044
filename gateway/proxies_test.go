package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/proxytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// startGated starts a gateway in front of a capability that sends its response piece by piece.
func startGated(t *testing.T, beat time.Duration) (*mcpFront, *gatewaytest.Gated) {
	t.Helper()
	g, address := gatewaytest.ServeGated(t)
	return startMCP(t, func(o *gatewaytest.Options) {
		o.Fleets[0].Backends = []string{address}
		o.Fleets[0].Sources = []string{gatewaytest.Echo}
		o.MCP.Beat = beat
	}), g
}

// arrives waits until a response contains text.
type arrives func(text string)

// opens sends a request whose response may start late.
type opens func(t *testing.T, client *http.Client, url string) arrives

// rawly opens a response that is read undecoded; header holds names and values in turn.
func rawly(method, path, body string, header ...string) opens {
	return decoded(nil, method, path, body, header...)
}

// decoded is rawly with a decoder of the response.
func decoded(decode func([]byte) []byte, method, path, body string, header ...string) opens {
	return func(t *testing.T, client *http.Client, url string) arrives {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		check.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		stream := proxytest.Open(t, client, req)
		stream.Decode = decode
		return func(text string) {
			t.Helper()
			stream.Until(t, text)
		}
	}
}

// quanta decodes base64 that may have padding anywhere (gRPC-Web, "Protocol differences").
func quanta(text []byte) (all []byte) {
	for ; len(text) >= 4; text = text[4:] {
		part, err := base64.StdEncoding.DecodeString(string(text[:4]))
		if err != nil {
			return nil
		}
		all = append(all, part...)
	}
	return all
}

// byConnect opens a stream with a connect-go client.
func byConnect(options ...connect.ClientOption) opens {
	return func(t *testing.T, client *http.Client, url string) arrives {
		t.Helper()
		stream, err := newWebClient(client, url, options...).stream.CallServerStream(t.Context(),
			connect.NewRequest(request(gatewaytest.Echo, "{}")))
		check.Must(t, err)
		check.Cleanup(t, func() { _ = stream.Close() })
		return func(text string) {
			t.Helper()
			if !stream.Receive() || !strings.Contains(string(stream.Msg().GetData()), text) {
				t.Fatalf("%q, %v, not %q", stream.Msg().GetData(), stream.Err(), text)
			}
		}
	}
}

// mcpCall returns a call over MCP in a revision. about is part of its _meta.
func mcpCall(revision, about, accepts string) opens {
	header := []string{"Accept", accepts, "Mcp-Method", "tools/call", "Mcp-Name", "caps__echo"}
	if revision != "2025-03-26" { // which has no header
		header = append(header, "Mcp-Protocol-Version", revision)
	}
	meta := `"_meta":{` + about + `}`
	if revision == revisions[0] {
		meta = newestMeta
		if about != "" {
			meta = strings.Replace(newestMeta, "{", "{"+about+",", 1)
		}
	}
	return rawly(http.MethodPost, mcp.Path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+
		`,"name":"caps__echo","arguments":{"a":"`+revision+`"}}}`, header...)
}

const bothForms = "application/json, text/event-stream"

// streamsOfDoors returns the streams of tools at each door of the public port.
func streamsOfDoors(t *testing.T) map[string]opens {
	t.Helper()
	message, err := proto.Marshal(&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
		ArgsJson: []byte("{}")})
	check.Must(t, err)
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	const path, body = "/v1/capabilities/caps/", `{"tool_name":"echo","args":{}}`
	all := map[string]opens{
		"JSON, events":          rawly("POST", path+"stream", body, "Accept", asEvents),
		"JSON, lines":           rawly("POST", path+"stream", body, "Accept", asLines),
		"JSON, lines of invoke": rawly("POST", path+"invoke", body, "Accept", asLines),
		"JSON, EventSource":     rawly("GET", path+"tools/echo/stream", "", "Accept", asEvents),
		"Connect":               byConnect(),
		"Connect, JSON":         byConnect(connect.WithProtoJSON()),
		"gRPC-Web":              byConnect(connect.WithGRPCWeb()),
		"gRPC-Web, JSON":        byConnect(connect.WithGRPCWeb(), connect.WithProtoJSON()),
		"gRPC-Web, text": decoded(quanta, "POST", docpb.Capability_StreamInvoke_FullMethodName,
			base64.StdEncoding.EncodeToString(frame), "Content-Type", "application/grpc-web-text"),
		"MCP, events alone": mcpCall("2025-11-25", `"progressToken":1`, "text/event-stream"),
	}
	for _, revision := range revisions {
		all["MCP "+revision] = mcpCall(revision, `"progressToken":1`, bothForms)
	}
	return all
}

// TestStreamsPassProxies: behind nginx and haproxy with default settings, a piece of a stream arrives before
// the next one is sent, at every door.
func TestStreamsPassProxies(t *testing.T) {
	t.Parallel()
	f, g := startGated(t, 0)
	proxytest.Each(t, f.gateway.Addr, func(t *testing.T, client *http.Client) {
		for name, open := range streamsOfDoors(t) {
			t.Run(name, func(t *testing.T) {
				var saying sync.WaitGroup
				saying.Go(func() { g.Say(t, `"piece 1"`) })
				arrived := open(t, client, f.gateway.URL(""))
				arrived("piece 1")
				check.Ended(t, &saying, "the first piece")
				for _, piece := range []string{"piece 2", "piece 3"} {
					g.Say(t, `"`+piece+`"`)
					arrived(piece)
				}
				g.Say(t, "")
			})
		}
	})
}

// beatBehindProxies is long enough that a proxy which waits for a full buffer, of 4 KiB or more, does so for
// minutes.
const beatBehindProxies = 100 * time.Millisecond

// TestHeartbeatsPassProxies: behind proxies, an MCP client gets a heartbeat before the result of a running
// call.
func TestHeartbeatsPassProxies(t *testing.T) {
	t.Parallel()
	f, g := startGated(t, beatBehindProxies)
	calls := map[string]opens{
		"events alone": mcpCall("2025-06-18", "", "text/event-stream"),
		"a batch": rawly("POST", mcp.Path,
			`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}]`, "Accept", bothForms),
	}
	for _, revision := range revisions {
		calls[revision] = mcpCall(revision, "", bothForms)
		calls[revision+" with progress"] = mcpCall(revision, `"progressToken":1`, bothForms)
	}
	proxytest.Each(t, f.gateway.Addr, func(t *testing.T, client *http.Client) {
		for name, open := range calls {
			t.Run(name, func(t *testing.T) {
				arrived := open(t, client, f.gateway.URL(""))
				arrived(":\n\n")
				g.Say(t, `"the result"`)
				if strings.Contains(name, "progress") {
					arrived("the result")
					g.Say(t, "")
				}
				arrived(`"result":`)
			})
		}
	})
}

// TestMCPChangesPassProxies: behind proxies, a listening client is notified at once when the list of its tools
// changes.
func TestMCPChangesPassProxies(t *testing.T) {
	t.Parallel()
	f, _ := startGated(t, 0)
	listen := map[string]struct {
		opens
		begins string
	}{
		"GET 2025-03-26": {rawly("GET", mcp.Path, "", "Accept", "text/event-stream"), ":\n\n"},
		"GET 2025-11-25": {rawly("GET", mcp.Path, "", "Accept", "text/event-stream", "Mcp-Protocol-Version",
			"2025-11-25"), "data:\n\n"},
		"subscriptions/listen": {rawly("POST", mcp.Path, `{"jsonrpc":"2.0","id":"s1","method":"subscriptions/listen",`+
			`"params":{`+newestMeta+`,"notifications":{"toolsListChanged":true}}}`, "Accept", bothForms,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"), "acknowledged"},
	}
	changes := 0
	proxytest.Each(t, f.gateway.Addr, func(t *testing.T, client *http.Client) {
		for name, c := range listen {
			t.Run(name, func(t *testing.T) {
				arrived := c.opens(t, client, f.gateway.URL(""))
				arrived(c.begins)
				f.declare(t, allTools[:1+changes%2]...)
				changes++
				arrived("list_changed")
			})
		}
	})
}

// TestMCPFormsPassProxies: behind proxies, a form is requested on the stream of the call.
func TestMCPFormsPassProxies(t *testing.T) {
	t.Parallel()
	f, credentials := openDesk(t).selfApproval(t, check.Patience)
	proxytest.Each(t, f.gateway.Addr, func(t *testing.T, client *http.Client) {
		client.Transport = withHeader{client.Transport, http.Header{"X-Api-Key": {credentials["self"]},
			"X-User-Id": {"ann"}}}
		for _, revision := range []string{"2025-11-25", "2025-06-18"} {
			s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				Capabilities: &sdk.ClientCapabilities{
					Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
				},
			}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: f.gateway.URL(mcp.Path),
				HTTPClient: client, MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
			check.Must(t, err)
			check.Cleanup(t, func() { _ = s.Close() })
			if r, err := s.CallTool(t.Context(), echo(t.Name()+revision)); err != nil || r.IsError {
				t.Errorf("%s: %+v %v", revision, r, err)
			}
		}
	})
}
