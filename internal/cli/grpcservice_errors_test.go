package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// serveDemo serves a fleet of a gRPC service all of whose methods are tools, and waits until they are known.
// settings are further fields of the fleet.
func serveDemo(t *testing.T, settings, policy string) (public string, client *sdk.ClientSession) {
	t.Helper()
	service := grpctest.Start(t, grpctest.Options{})
	text := strings.Replace(configOf("", service.Addr), "backends:", "protocol: grpc, "+
		"grpc_service: {methods: [demo.v1.Demo/*]}, "+settings+" backends:", 1)
	text = strings.Replace(text, "policy: allow", "policy: "+policy, 1)
	p, public, _ := serve(t, nil, "--config", writeConfig(t, text))
	t.Cleanup(func() { p.stop(t) })
	check.Until(t, "the tools to be known", func() (bool, string) { // a client caches its list for a while
		var err error
		client, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: "http://" + public + "/mcp", MaxRetries: -1}, nil)
		check.Must(t, err)
		list, err := client.ListTools(t.Context(), nil)
		check.Must(t, err)
		if len(list.Tools) != 5 {
			_ = client.Close()
		}
		return len(list.Tools) == 5, fmt.Sprintf("%d tools", len(list.Tools))
	})
	t.Cleanup(func() { _ = client.Close() })
	return public, client
}

// TestArgumentsOfGRPCServices: wrong arguments have the same error at every door, with and without
// validate_arguments, whether or not the call requires approval.
func TestArgumentsOfGRPCServices(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"", "validate_arguments: true,"} {
		for _, policy := range []string{"allow", "ask"} {
			t.Run(settings+policy, func(t *testing.T) {
				t.Parallel()
				public, client := serveDemo(t, settings, policy)
				for args, want := range map[string]struct{ pointer, part string }{
					`{"city_name":"Ulm"}`:                  {"/city_name", `did you mean \"cityName\"`},
					`{"int32":"12"}`:                       {"/int32", "want integer"},
					`{"next":{"time":"yesterday"}}`:        {"/next/time", "timestamp"},
					`{"left":"a","right":1}`:               {"/right", "oneof"},
					`{"children":{"x":{"bytes":"AAAAA"}}}`: {"/children/x/bytes", "base64"},
					`{"any":{"@type":"type.googleapis.com/demo.v1.CountRequest","too":3}}`: {"/any/too",
						""},
					`{"any":{"@type":"type.googleapis.com/demo.v1.CountRequest","to":"3"}}`: {"/any/to",
						"want integer"},
					`{"any":{"@type":"type.googleapis.com/demo.v1.Everything","city_name":"x"}}`: {"/any/city_name",
						""},
					`{"any":{"@type":"type.googleapis.com/demo.v1.Everything","color":1}}`: {"/any/color",
						""},
					`{"any":{"@type":"type.googleapis.com/demo.v1.Everything","next":{"other_name":""}}}`: {"", ""},
					`{"any":{"\u0040type":"type.googleapis.com/demo.v1.Everything","bytes":"_-8"}}`: {"/any/bytes",
						""},
					`{"any":{"@type":"x.test/demo.v1.CountRequest","to":3}}`: {"/any/@type",
						"type.googleapis.com/demo.v1"},
					`{"any":{"@type":"type.googleapis.com/google.protobuf.Int32Value","value":"3"}}`: {"/any/value",
						""},
					`{"children":{"x":{"any":{"@type":"type.googleapis.com/google.protobuf.Any",` +
						`"value":{"@type":"type.googleapis.com/demo.v1.CountRequest","to":"3"}}}}}`: {
						"/children/x/any/value/to", ""},
				} {
					code, body := postTool(t, public, "Echo", args)
					var p struct {
						Reason   string
						Metadata map[string]string
					}
					check.Must(t, json.Unmarshal([]byte(body), &p))
					if code != http.StatusBadRequest || p.Reason != "ARGUMENTS_INVALID" ||
						p.Metadata["not_started"] != "true" ||
						want.pointer != "" && p.Metadata["pointer"] != want.pointer ||
						!strings.Contains(body, want.part) {
						t.Errorf("%s: %d %s", args, code, body)
					}
					r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__Echo",
						Arguments: json.RawMessage(args)})
					if err != nil || !r.IsError || !strings.Contains(textOf(r), want.pointer) {
						t.Errorf("%s over MCP: %+v, %v", args, r, err)
					}
				}
				good := `{"any":{"@type":"type.googleapis.com/demo.v1.Everything","color":"COLOR_RED",` +
					`"next":{"int64":3},"any":{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}}}`
				if code, body := postTool(t, public, "Echo", good); (code == http.StatusOK) != (policy == "allow") ||
					(code == http.StatusAccepted) != (policy == "ask") {
					t.Errorf("got %d %s", code, body)
				}
			})
		}
	}
}

// textOf returns the texts of a result.
func textOf(r *sdk.CallToolResult) (all string) {
	for _, c := range r.Content {
		if text, is := c.(*sdk.TextContent); is {
			all += text.Text + "\n"
		}
	}
	return all
}

// TestStatusesOfGRPCServices: the status of a service is the error of a tool for a model, and its details are
// JSON.
func TestStatusesOfGRPCServices(t *testing.T) {
	t.Parallel()
	public, client := serveDemo(t, "", "allow")
	const args = `{"code":9,"message":"the account is closed"}`
	code, body := postTool(t, public, "Fail", args)
	if code != http.StatusBadRequest ||
		!strings.Contains(body, `"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo"`) ||
		!strings.Contains(body, "the account is closed") {
		t.Errorf("got %d %s", code, body)
	}
	r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__Fail", Arguments: json.RawMessage(args)})
	if err != nil || !r.IsError || !strings.Contains(textOf(r), "FAILED_PRECONDITION: the account is closed") ||
		!strings.Contains(textOf(r), `"reason":"DEMO"`) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestDeepResultsOfGRPCServices: a result that is nested too deeply for JSON has an error that says so.
func TestDeepResultsOfGRPCServices(t *testing.T) {
	t.Parallel()
	public, _ := serveDemo(t, "", "allow")
	for levels, want := range map[int]int{40: http.StatusOK, 60: http.StatusInternalServerError} {
		var data []byte
		for range levels { // an entry of children
			entry := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), data)
			data = protowire.AppendBytes(protowire.AppendTag(nil, 10, protowire.BytesType), entry)
		}
		code, body := postTool(t, public, "Raw", `{"message":"`+base64.StdEncoding.EncodeToString(data)+`"}`)
		if code != want || code != http.StatusOK && !strings.Contains(body, "is more than 100 levels deep as JSON") {
			t.Errorf("%d levels: %d %.300s", levels, code, body)
		}
	}
}
