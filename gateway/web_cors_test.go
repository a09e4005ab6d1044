package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// pageAnswer is the response that a page got; Refused is set if its browser did not reveal it.
type pageAnswer struct {
	Refused           bool
	Status            int
	Text, ID, Outcome string
}

// pageSaw is the report of testdata/web/cors.html.
type pageSaw struct {
	JSON, Connect, GRPCWeb, Simple pageAnswer
	Source                         struct {
		Chunks []struct {
			Data   json.RawMessage `json:"data"`
			Base64 string          `json:"data_base64"`
		}
		Done   int
		Closed bool
	}
	Headers map[string]map[string]string // headers that a page may read, by call
}

// pageOrigin serves the page; ask shows it to a browser and returns what it saw of a gateway.
func pageOrigin(t *testing.T) (origin string, ask func(gateway string) pageSaw) {
	t.Helper()
	pages := newBrowsed(t)
	pages.page("/cors.html")
	return pages.URL, func(gateway string) (saw pageSaw) {
		t.Helper()
		text := pages.show(t, "/cors.html?gateway="+url.QueryEscape(gateway))
		if err := json.Unmarshal(text, &saw); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return saw
	}
}

// TestPagesOfOtherOrigins: a browser permits a configured page to call with every protocol of pages, and no
// other page. An EventSource that reconnects makes no second call.
func TestPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	allowed, askAllowed := pageOrigin(t)
	_, askOther := pageOrigin(t)
	c := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{CORS: cors.Config{Origins: []string{allowed}},
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{c.Serve(t, call.Doc).Addr},
			Sources: []string{gatewaytest.Echo}}}})

	other := askOther(g.URL(""))
	for name, a := range map[string]pageAnswer{"JSON": other.JSON, "Connect": other.Connect,
		"gRPC-Web": other.GRPCWeb} {
		if !a.Refused {
			t.Errorf("a page of another origin, by %s: %+v", name, a)
		}
	}
	if other.Source.Done > 0 || len(other.Source.Chunks) > 0 || len(c.Seen()) > 0 {
		t.Errorf("a page of another origin made %d calls: %+v", len(c.Seen()), other)
	}

	saw := askAllowed(g.URL(""))
	if a := saw.JSON; a.Refused || a.Status != 200 || a.Text != `{"from":"json"}` || a.ID != "a page's" ||
		a.Outcome != "success" {
		t.Errorf("JSON: %+v", a)
	}
	if a := saw.Connect; a.Status != 200 ||
		!strings.Contains(a.Text, base64.StdEncoding.EncodeToString([]byte(`{"from":"connect"}`))) {
		t.Errorf("Connect: %+v", a)
	}
	if a := saw.GRPCWeb; a.Refused || a.Status != 200 {
		t.Errorf("gRPC-Web: %+v", a)
	}
	var text []byte
	for _, chunk := range saw.Source.Chunks {
		part, err := base64.StdEncoding.DecodeString(chunk.Base64)
		if text = append(text, part...); err != nil || len(chunk.Data) > 0 {
			t.Errorf("a chunk: %+v, %v", chunk, err)
		}
	}
	if string(text) != `{"from":"a source"}` || saw.Source.Done != 1 || !saw.Source.Closed {
		t.Errorf("an EventSource: %s, %+v", text, saw.Source)
	}
	assertReadable(t, saw.Headers, other.Headers)
	if n := len(c.Seen()); n != 3+len(saw.Headers) { // a form could send it, so it is not accepted as JSON
		t.Errorf("the backend got %d calls", n)
	}
}

// assertReadable requires that the script of a permitted page can read what a client needs of a response: the
// request id and, for gRPC-Web, the status of a failed call, which has no body. Any other page reads nothing.
func assertReadable(t *testing.T, headers, others map[string]map[string]string) {
	t.Helper()
	if len(headers) != 4 || len(others) != 4 {
		t.Fatalf("got %v, %v", headers, others)
	}
	for what, h := range headers {
		if h["x-request-id"] != "a page's" || h["served-by"] != "" {
			t.Errorf("%s: a page reads %v", what, h)
		}
		if len(others[what]) > 0 {
			t.Errorf("%s: a page of another origin reads %v", what, others[what])
		}
	}
	refused := headers["gRPC-Web, refused"]
	if refused["grpc-status"] != "15" || refused["grpc-message"] != "broke: 100%25 of it, na%C3%AFvely" {
		t.Errorf("the status of a call that failed: %v", refused)
	}
	raw, err := base64.RawStdEncoding.DecodeString(refused["grpc-status-details-bin"])
	var st spb.Status
	if err != nil || proto.Unmarshal(raw, &st) != nil || st.GetCode() != 15 || len(st.GetDetails()) != 1 {
		t.Errorf("its details: %v, %v", &st, err)
	}
	if h := headers["gRPC-Web"]; h["grpc-accept-encoding"] != "gzip" {
		t.Errorf("a page does not read which encodings it may send: %v", h)
	}
}
