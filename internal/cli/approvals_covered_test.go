package cli

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestCallersThatWaitAreReleased: three callers at two replicas wait for approval. One answer for the session, or a
// permanent one, releases all of them and reports how many others it covers.
func TestCallersThatWaitAreReleased(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, strings.Replace(configOf("policies: {}\n"+patientRedis(redistest.Start(t).URL()),
		gatewaytest.NewCapability("first").Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1))
	var public [2]string
	var admin string
	for i := range public {
		_, public[i], admin = serve(t, nil, "--config", config)
	}
	for _, remember := range []string{"session", "always"} {
		ends := make(chan string, 3)
		for i := range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://"+public[i%2]+"/v1/capabilities/caps/tools/echo",
				strings.NewReader(`{"n":`+strconv.Itoa(i)+`}`))
			check.Must(t, err)
			for name, value := range map[string]string{"Content-Type": "application/json", "Prefer": "wait=60",
				"X-User-Id": "ann", "X-Session-Id": "s-" + remember} {
				req.Header.Set(name, value)
			}
			go func() {
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					ends <- err.Error()
					return
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				ends <- strconv.Itoa(resp.StatusCode) + " " + string(text)
			}()
		}
		var ids []string
		check.Until(t, "three pending approvals", func() (bool, string) {
			_, out, _ := capgateApprovals(t, admin, "list")
			ids = nil
			for word := range strings.FieldsSeq(out) {
				if strings.HasPrefix(word, "apr_") {
					ids = append(ids, word)
				}
			}
			return len(ids) == 3, out
		})
		if exit, out, stderr := capgateApprovals(t, admin, "approve", ids[0], "--remember", remember); exit != 0 ||
			!strings.Contains(out, "2 other calls that waited got the same answer") {
			t.Errorf("%s: %d %s %s", remember, exit, out, stderr)
		}
		for range 3 {
			if end := check.Received(t, ends, "a caller's response"); !strings.HasPrefix(end, "200 ") {
				t.Errorf("%s: %s", remember, end)
			}
		}
	}
}
