package mcp_test

import (
	"testing"

	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// TestMostServersDieAtOnce: a call that no server has begun finds the one that is left, without a retry budget.
func TestMostServersDieAtOnce(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			var servers []*remote
			var urls []string
			for range 5 {
				r := newRemote(t, old)
				servers, urls = append(servers, r), append(urls, r.URL)
			}
			w := start(t, func(_ *upstream.Fleet, f *gatewaytest.Fleet) {
				f.Retries, f.Ejection = router.Retries{Share: -1, Floor: -1}, router.Ejection{ConnectFailures: -1}
			}, urls...)
			for range 20 {
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			}
			for _, r := range servers[1:] {
				_ = r.Listener.Close()
				r.CloseClientConnections()
			}
			for range 40 {
				_, err := w.Invoke(within(t), request("echo", `{"text":"x"}`))
				if err != nil && !isLost(err) {
					t.Errorf("%v, %v", err, status.Convert(err).Details())
				}
			}
		})
	}
}

// isLost reports whether a call ended as one that may have run.
func isLost(err error) bool {
	info := clienttest.ErrorInfo(err)
	return info.GetReason() == "UPSTREAM_LOST" && info.GetMetadata()["not_started"] == ""
}
