package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// pathVariable is a variable in a path of an OpenAPI document.
var pathVariable = regexp.MustCompile(`\{[^}]*\}`)

// documented is an OpenAPI document, as far as the test reads it.
type documented struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name, In string
			Required bool
		}
		RequestBody struct {
			Content map[string]struct {
				Schema struct {
					Ref      string `json:"$ref"`
					Type     string
					Required []string
					Closed   any `json:"additionalProperties"`
				}
			}
		}
	}
	Components struct {
		Schemas map[string]struct {
			Closed any `json:"additionalProperties"`
		}
	}
}

// ask sends a request, and returns the response with its text.
func ask(t *testing.T, method, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), url, strings.NewReader(body))
	check.Must(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp, string(text)
}

// TestTheDocumentSaysWhatIsEnforced: both ports reject unknown and missing fields, page sizes and methods that
// their documents exclude, and Allow lists the methods of a path.
func TestTheDocumentSaysWhatIsEnforced(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr
	p, public, admin := serve(t, nil, "--config", writeConfig(t, configOf("", backend)))
	for name, base := range map[string]string{"public": "http://" + public, "admin": "http://" + admin} {
		t.Run(name, func(t *testing.T) { // the program ends after both
			_, text := ask(t, "get", base+"/openapi.json", "")
			var doc documented
			check.Must(t, json.Unmarshal([]byte(text), &doc))
			bodies, required, pages := 0, 0, 0
			for path, item := range doc.Paths {
				url := base + pathVariable.ReplaceAllString(path, "x")
				var methods []string
				for method, operation := range item {
					methods = append(methods, strings.ToUpper(method))
					body, has := operation.RequestBody.Content["application/json"]
					closed := body.Schema.Closed
					if ref := body.Schema.Ref; ref != "" {
						closed = doc.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]].Closed
					}
					if has && closed != true {
						bodies++
						resp, text := ask(t, method, url, `{"no_such_field":1}`)
						if closed != false || resp.StatusCode != http.StatusBadRequest ||
							!strings.Contains(text, "INVALID_BODY") {
							t.Errorf("%s %s with an unknown field: %s %s; the document says %v", method, path,
								resp.Status, text, closed)
						}
					}
					for _, field := range body.Schema.Required {
						required++
						if resp, text := ask(t, method, url, `{}`); resp.StatusCode/100 != 4 {
							t.Errorf("%s %s without %s: %s %s", method, path, field, resp.Status, text)
						}
					}
					for _, q := range operation.Parameters {
						switch {
						case q.In == "query" && q.Name == "page_size":
							pages++
							if resp, text := ask(t, method, url+"?page_size=-1", ""); resp.StatusCode/100 != 4 {
								t.Errorf("%s %s?page_size=-1: %s %s", method, path, resp.Status, text)
							}
						case q.In == "query" && q.Required:
							if resp, text := ask(t, method, url, ""); resp.StatusCode/100 != 4 {
								t.Errorf("%s %s without %s: %s %s", method, path, q.Name, resp.Status, text)
							}
						}
					}
				}
				checkAllowed(t, url, path, methods)
			}
			if bodies < 8 || required < 2 || pages < 2 {
				t.Errorf("%d bodies, %d required fields and %d lists are too few", bodies, required, pages)
			}
		})
	}
	p.stop(t)
}

// checkAllowed checks the response to a method that a path does not have.
func checkAllowed(t *testing.T, url, path string, methods []string) {
	t.Helper()
	for _, other := range []string{http.MethodDelete, http.MethodPut} {
		if slices.Contains(methods, other) {
			continue
		}
		resp, text := ask(t, other, url, "")
		allow := strings.Split(resp.Header.Get("Allow"), ", ")
		got := slices.DeleteFunc(allow, func(m string) bool {
			return (m == http.MethodHead || m == http.MethodOptions) && !slices.Contains(methods, m)
		})
		slices.Sort(got)
		slices.Sort(methods)
		if resp.StatusCode != http.StatusMethodNotAllowed || fmt.Sprint(got) != fmt.Sprint(methods) {
			t.Errorf("%s %s: %s, Allow %q, and the document has %q: %s", other, path, resp.Status,
				resp.Header.Get("Allow"), methods, text)
		}
	}
}
