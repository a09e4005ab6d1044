package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	invokePath = docpb.Capability_Invoke_FullMethodName
	streamPath = docpb.Capability_StreamInvoke_FullMethodName
	checkPath  = "/grpc.health.v1.Health/Check"
)

// TestWebInputs: malformed input gets an error that repeats none of its values.
func TestWebInputs(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	const secret = "hunter2"
	for name, test := range map[string]struct {
		path, contentType, body string
		header                  []string
		status                  int
		want                    string // a part of body or headers
	}{
		"health by curl":     {checkPath, "application/json", "{}", nil, 200, `"SERVING"`},
		"a charset":          {checkPath, "application/json; charset=utf-8", "{}", nil, 200, `"SERVING"`},
		"a type in capitals": {checkPath, "Application/JSON", "{}", nil, 200, `"SERVING"`},
		"base64":             {checkPath, "application/grpc-web-text", "AAAAAAA=", nil, 200, "AAAAAAIIAYAAAAAQ"},
		"no JSON":            {invokePath, "application/json", `{"configJson": hunter2`, nil, 400, "REQUEST_MALFORMED"},
		"a wrong type": {invokePath, "application/json", `{"configJson":"hunter2!","toolName":{"hunter2":1}}`, nil,
			400, "(line 1:"},
		"a field twice": {invokePath, "application/json", `{"toolName":"a","toolName":"hunter2"}`, nil, 400,
			"REQUEST_MALFORMED"},
		"nested": {invokePath, "application/json", strings.Repeat(`{"x":`, 200) + "1" + strings.Repeat("}", 200),
			nil, 400, "REQUEST_MALFORMED"},
		"not UTF-8": {invokePath, "application/json", "{\"toolName\":\"\xff\"}", nil, 400, "REQUEST_MALFORMED"},
		"no schema": {"/a.B/C", "application/json", "{}", nil, 501, "JSON_UNSUPPORTED"},
		"no such method": {"/selu.capability.Capability/Nope", "application/json", "{}", nil, 501,
			"JSON_UNSUPPORTED"},
		"no protobuf":       {invokePath, "application/proto", "\xff\xff", nil, 400, "REQUEST_MALFORMED"},
		"a stream as unary": {streamPath, "application/proto", "", nil, 415, "application/connect+proto"},
		"unary as a stream": {invokePath, "application/connect+proto", "", nil, 415, "application/proto"},
		"another codec":     {invokePath, "application/grpc-web+thrift", "", nil, 415, "application/grpc-web+proto"},
		"cut off":           {invokePath, "application/grpc-web", "\x00\x00\x00\x00\x05a", nil, 200, "Grpc-Status: 3"},
		"nothing":           {invokePath, "application/grpc-web", "", nil, 200, "Grpc-Status: 3"},
		"two messages": {invokePath, "application/grpc-web", strings.Repeat("\x00\x00\x00\x00\x00", 2), nil, 200,
			"Grpc-Status: "},
		"no base64": {checkPath, "application/grpc-web-text", "AAAA!AA=", nil, 200, "Grpc-Status: 3"},
		"too long":  {checkPath, "application/grpc-web", "\x00\x7f\xff\xff\xff", nil, 200, "Grpc-Status: 8"},
		"unknown packing": {invokePath, "application/grpc-web", "\x00\x00\x00\x00\x00",
			[]string{"Grpc-Encoding", "lzma"}, 200, "Grpc-Status: 12"},
		"a bad time": {checkPath, "application/json", "{}", []string{"Connect-Timeout-Ms", "soon"}, 400,
			"invalid_argument"},
		"no time": {checkPath, "application/json", "{}", []string{"Connect-Timeout-Ms", "0"}, 504,
			"deadline_exceeded"},
		"no base64 inside": {checkPath, "application/json", "{}", []string{"X-A-Bin", secret + "!"}, 400,
			"METADATA_INVALID"},
		"not ASCII":      {checkPath, "application/json", "{}", []string{"X-A", "hünter2"}, 400, "METADATA_INVALID"},
		"a strange name": {checkPath, "application/json", "{}", []string{"X!A", secret}, 400, "METADATA_INVALID"},
		"a strange path": {"/a.B/%0aC", "application/proto", "", nil, 501, "METHOD_UNKNOWN"},
		"JSON of the API": {"/v1/capabilities/caps/invoke", "application/json", `{"tool_name":"echo"}`, nil, 200,
			`{"result":{}}`},
		"elsewhere": {"/nowhere", "application/json", "{}", nil, 404, "NO_SUCH_PATH"},
	} {
		for _, p := range protocols {
			status, text := sendWeb(t, p.client(f.gateway, t), f.gateway.URL(test.path), test.contentType, test.body,
				test.header...)
			if status != test.status || !strings.Contains(text, test.want) || strings.Contains(text, secret) {
				t.Errorf("%s, %s: %d %s", name, p.name, status, text)
			}
		}
	}
}

// sendWeb posts and returns status, headers and body.
func sendWeb(t *testing.T, client *http.Client, url, contentType, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	check.Must(t, err)
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		req.Header[header[i]] = []string{header[i+1]}
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_ = resp.Header.Write(&text)
	if _, err := io.Copy(&text, resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, text.String()
}

func TestWebMessagesAreBounded(t *testing.T) {
	const most = 1 << 20
	eachWebOnce(t, func(t *testing.T, f *front, client *webClient) { client.refuses(t, f, most+1<<16) },
		func(o *gatewaytest.Options) { o.Connect.MaxMessage, o.Relay.HTTP2.MaxFirstMessage = most, most })
}

// TestLongestMessagesByDefault: a message over the default maximum is rejected, over gRPC and Connect.
func TestLongestMessagesByDefault(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	_, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, strings.Repeat("0", 17<<20)))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC: %v", err)
	}
	newWebClient(f.gateway.HTTP1(t), f.gateway.URL("")).refuses(t, f, 17<<20)
}

// refuses expects that a message of n bytes is too long.
func (c *webClient) refuses(t *testing.T, f *front, length int) {
	t.Helper()
	_, err := c.invoke.CallUnary(t.Context(),
		connect.NewRequest(request(gatewaytest.Echo, strings.Repeat("0", length))))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("%d bytes: %v", length, err)
	}
	if seen := f.capability.Seen(); len(seen) > 0 {
		t.Errorf("the backend saw %d calls", len(seen))
	}
}

// TestWebServicesOfFleets: messages of unknown types pass. Headers that a backend sends to browsers in the
// gateway's name do not, and neither does what browsers add by themselves, such as cookies.
func TestWebServicesOfFleets(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Serve(t, func(*grpc.Server) {},
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			in := new(wrapperspb.StringValue)
			if err := stream.RecvMsg(in); err != nil {
				return err
			}
			md, _ := metadata.FromIncomingContext(stream.Context())
			leaked := slices.Concat(md.Get("cookie"), md.Get("referer"), md.Get("sec-fetch-site"), md.Get("dnt"))
			if err := stream.SendHeader(metadata.Pairs("x-fine", strings.Join(md.Get("x-mine"), ","), "x-leaked",
				strings.Join(leaked, ","), "raw-bin", "\x00\xff", "set-cookie", "a=b",
				"access-control-allow-origin", "*", "location", "http://x")); err != nil {
				return err
			}
			stream.SetTrailer(metadata.Pairs("x-last", "too", "set-cookie", "c=d"))
			in.Value += "!"
			return stream.SendMsg(in)
		}))
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "custom", Services: []string{"custom.v1.Files"}, Backends: []string{b.Addr}, Unprobed: true}}})
	for _, d := range webDialects {
		for _, p := range protocols {
			if d.name == "gRPC" {
				continue
			}
			client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](p.client(g, t),
				g.URL("/custom.v1.Files/Shout"), d.options...)
			req := connect.NewRequest(wrapperspb.String("hey"))
			for name, value := range map[string]string{"Cookie": "c=1", "Referer": "https://page.example.com/secret",
				"Sec-Fetch-Site": "same-origin", "Dnt": "1", "X-Mine": "yes"} {
				req.Header().Set(name, value)
			}
			resp, err := client.CallUnary(t.Context(), req)
			if strings.Contains(d.name, "JSON") {
				if connect.CodeOf(err) != connect.CodeUnimplemented || reasonOf(err) != "JSON_UNSUPPORTED" {
					t.Errorf("%s: %v", d.name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", d.name, err)
				continue
			}
			h, tr := resp.Header(), resp.Trailer()
			raw, err := connect.DecodeBinaryHeader(h.Get("Raw-Bin"))
			if resp.Msg.GetValue() != "hey!" || h.Get("X-Fine") != "yes" || h.Get("X-Leaked") != "" ||
				string(raw) != "\x00\xff" || err != nil || tr.Get("X-Last") != "too" ||
				h.Get("Set-Cookie")+h.Get("Access-Control-Allow-Origin")+h.Get("Location")+tr.Get("Set-Cookie") != "" {
				t.Errorf("%s: %v, %v, %v; raw %+v; err %+v", d.name, resp.Msg, h, tr, string(raw), err)
			}
		}
	}
}
