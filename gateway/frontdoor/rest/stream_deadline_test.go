package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestStreamsDeadline: a stream whose deadline passes ends then, with a record that says so. Time is virtual, so that
// the first chunk is sent before.
func TestStreamsDeadline(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		web := resttest.Handler(t, func(g *grpc.Server) {
			docpb.RegisterCapabilityServer(g, &backend{stream: func(_ *docpb.InvokeRequest, stream chunks) error {
				if err := stream.Send(chunk("1")); err != nil {
					return err
				}
				<-stream.Context().Done()
				return stream.Context().Err()
			}})
		}, rest.Config{})
		r := httptest.NewRequestWithContext(t.Context(), "POST", streamPath, strings.NewReader(`{"tool_name":"t"}`))
		r.Header = http.Header{"Accept": {resttest.JSONLines}, "Request-Timeout": {"1s"}}
		began, w := time.Now(), httptest.NewRecorder()
		web.ServeHTTP(w, r)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it ended after %v", took)
		}
		got := w.Body.String()
		if first := `{"event":"chunk","id":"1","data":1}` + "\n"; w.Code != 200 || !strings.HasPrefix(got, first) {
			t.Errorf("%d %s", w.Code, got)
		}
		if event, p := resttest.LastRecord(t, got); event != "error" || p.Code != "DEADLINE_EXCEEDED" {
			t.Errorf("%s; event %+v; p %+v", got, event, p)
		}
	})
}
