package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestRefusedRequestsOfConnectAreLogged: a request of Connect or gRPC-Web whose first message is refused, or whose
// deadline has passed, is in the access log with the reason that its client gets, and is not started.
func TestRefusedRequestsOfConnectAreLogged(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	const web, connect = "application/grpc-web", "application/connect+json"
	for i, c := range []struct {
		webCase
		reason string
	}{
		{webCase{"no time", streamPath, web, enveloped(0, ""), []string{"Grpc-Timeout", "0n"}}, "DEADLINE_EXCEEDED"},
		{webCase{"no time", invokePath, web, enveloped(0, ""), []string{"Grpc-Timeout", "0n"}}, "DEADLINE_EXCEEDED"},
		{webCase{"no time", streamPath, connect, enveloped(0, "{}"), []string{"Connect-Timeout-Ms", "0"}},
			"DEADLINE_EXCEEDED"},
		{webCase{"too long", streamPath, web, "\x00\x7f\xff\xff\xff", nil}, "MESSAGE_TOO_LARGE"},
		{webCase{"too long", invokePath, web, "\x00\x7f\xff\xff\xff", nil}, "MESSAGE_TOO_LARGE"},
		{webCase{"flag", streamPath, connect, enveloped(4, ""), nil}, "REQUEST_MALFORMED"},
		{webCase{"JSON", streamPath, connect, enveloped(0, "{"), nil}, "REQUEST_MALFORMED"},
		{webCase{"two", invokePath, web, enveloped(0, "") + enveloped(0, ""), nil}, "REQUEST_MALFORMED"},
		{webCase{"three", invokePath, web, strings.Repeat(enveloped(0, ""), 3), nil}, "REQUEST_MALFORMED"},
		{webCase{"none", invokePath, web, "", nil}, "REQUEST_MISSING"},
	} {
		response := webResponse(t, http.DefaultClient, f.gateway.URL(c.path), c.webCase,
			io.MultiReader(strings.NewReader(c.body)))
		line := f.gateway.Log.Calls(t, i+1)[i]
		if line.Text("reason") != c.reason || strings.Contains(response, "carried out") {
			t.Errorf("%s: logged %v; response %s; want %s", c.name, line, response, c.reason)
		}
	}
}

// TestMalformedMessagesOfConnectAreLogged: a call that ends because a later message of its client is malformed is
// logged as such, and not as one whose client has left.
func TestMalformedMessagesOfConnectAreLogged(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	for i, second := range []string{enveloped(0, "{"), enveloped(8, "{}"), "\x00\x00\x00\x00\x09{}"} {
		c := webCase{"second", docpb.Capability_UploadInputArtifact_FullMethodName, "application/connect+json",
			enveloped(0, `{"filename":"f"}`) + second, []string{"X-Capability-Id", "caps"}}
		response := webResponse(t, http.DefaultClient, f.gateway.URL(c.path), c, strings.NewReader(c.body))
		line := f.gateway.Log.Calls(t, i+1)[i]
		if line.Text("failure") != "MESSAGE_MALFORMED" || line.Text("code") != "INVALID_ARGUMENT" ||
			!strings.Contains(response, "REQUEST_MALFORMED") {
			t.Errorf("%q: logged %v; response %s", second, line, response)
		}
	}
}
