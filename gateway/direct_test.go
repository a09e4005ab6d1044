package gateway_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// bodiesOfCalls are request bodies of the invoke routes, valid and invalid.
var bodiesOfCalls = map[string]string{
	"good":               `{"tool_name":"echo","args":{"a":1}}`,
	"with blanks":        " \n{ \"tool_name\" : \"echo\" , \"args\" : { \"a\" : [ 1, {} ] } }\n ",
	"session and thread": `{"tool_name":"echo","session_id":"s","thread_id":"t","args":{"a":1},"config":{"k":"v"}}`,
	"escapes":            `{"tool_name":"\u0065cho","args":{"a":"\u0061"}}`,
	"camel case":         `{"toolName":"echo","args":{"a":1}}`,
	"base64":             `{"tool_name":"echo","args_json":"eyJhIjoxfQ=="}`,
	"capability":         `{"tool_name":"echo","capability_id":"caps","args":{}}`,
	"another capability": `{"tool_name":"echo","capability_id":"other"}`,
	"a name twice":       `{"tool_name":"echo","tool_name":"echo","args":{}}`,
	"an argument twice":  `{"tool_name":"echo","args":{"a":1,"a":2}}`,
	"names that fold":    `{"tool_name":"echo","args":{"a":1,"A":2}}`,
	"null":               `{"tool_name":"echo","args":null}`,
	"arguments as text":  `{"tool_name":"echo","args":"x"}`,
	"a number as tool":   `{"tool_name":1}`,
	"no tool":            `{"args":{}}`,
	"empty tool":         `{"tool_name":""}`,
	"an unknown field":   `{"tool_name":"echo","argz":{}}`,
	"an array":           `[]`,
	"an empty object":    `{}`,
	"blank":              `  `,
	"something follows":  `{"tool_name":"echo"} {}`,
	"syntax":             `{"tool_name":`,
	"not UTF-8":          "{\"tool_name\":\"\xff\"}",
	"a lone surrogate":   `{"tool_name":"\ud800"}`,
	"NUL":                `{"tool_name":"a\u0000b"}`,
	"byte order mark":    "\ufeff" + `{"tool_name":"echo"}`,
	"deep": `{"tool_name":"echo","args":` + strings.Repeat(`{"a":`, 120) + `1` + strings.Repeat(`}`, 120) +
		`}`,
	"a number too large":  `{"tool_name":"echo","args":{"a":1e999}}`,
	"longer than direct":  `{"tool_name":"echo","args":{"a":"` + strings.Repeat("x", 70_000) + `"}}`,
	"the tool fails":      `{"tool_name":"fail","args":{}}`,
	"a tool there is not": `{"tool_name":"nothing","args":{}}`,
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// TestDirectCallsAnswerLikeTheMux: a request that takes the slow path because of one header gets the same
// response.
func TestDirectCallsAnswerLikeTheMux(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr},
	}}})
	ask := func(path, body, contentType string, mux bool) (status int, header http.Header, text string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL(path), strings.NewReader(body))
		check.Must(t, err)
		req.Header.Set("Content-Type", contentType)
		if mux {
			req.Header.Set("X-Other", "1")
		}
		resp, err := clienttest.HTTP.Do(req)
		check.Must(t, err)
		defer resp.Body.Close()
		read, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		resp.Header.Del("Date")
		resp.Header.Del("X-Request-Id")
		return resp.StatusCode, resp.Header, requestID.ReplaceAllString(string(read), "")
	}
	for _, path := range []string{
		"/v1/capabilities/caps/invoke", "/v1/capabilities/caps/tools/echo", "/v1/capabilities/nothing/invoke",
	} {
		for name, body := range bodiesOfCalls {
			for _, contentType := range []string{"application/json", "application/x-www-form-urlencoded"} {
				status, header, text := ask(path, body, contentType, false)
				wantStatus, want, wantText := ask(path, body, contentType, true)
				header.Del("Content-Length") // of a problem, for the length of an id
				want.Del("Content-Length")
				if status != wantStatus || text != wantText || !sameHeaders(header, want) {
					t.Errorf("%s, %s, %s: %d %v %s; by the mux: %d %v %s", path, name, contentType, status, header,
						text, wantStatus, want, wantText)
				}
			}
		}
	}
}

func sameHeaders(a, b http.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if strings.Join(a.Values(name), ", ") != strings.Join(b.Values(name), ", ") {
			return false
		}
	}
	return true
}
