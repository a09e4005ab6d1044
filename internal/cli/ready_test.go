package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestReadyAfterTheFirstRead: a replica that starts while Redis is away is not ready, reports what it has not
// read, and is ready when Redis returns. It stays ready when Redis goes away again. A setting makes it ready at
// once.
func TestReadyAfterTheFirstRead(t *testing.T) {
	t.Parallel()
	redis, backend := redistest.Start(t), gatewaytest.NewCapability("b").Serve(t, call.Doc).Addr
	redis.Kill()
	config := func(more string) string {
		return writeConfig(t, configOf("redis: {url: '"+redis.URL()+"'"+more+
			"}\npolicies: {}\nidentity: {store: redis}", backend))
	}
	_, _, admin := serve(t, nil, "--config", config(""))
	ready := func() (int, string) { return page(t, "http://"+admin+"/readyz") }
	if status, body := ready(); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"unread":["rules","keys and tenants"]`) || !strings.Contains(body, `"redis":"away"`) {
		t.Errorf("without Redis: %d %s", status, body)
	}
	_, _, other := serve(t, nil, "--config", config(", ready_without: true"))
	if status, body := page(t, "http://"+other+"/readyz"); status != http.StatusOK {
		t.Errorf("with ready_without: %d %s", status, body)
	}
	redis.Restart()
	check.Until(t, "the replica to be ready", func() (bool, string) {
		status, body := ready()
		return status == http.StatusOK && !strings.Contains(body, "unread"), body
	})
	redis.Kill()
	waitPage(t, "http://"+admin+"/readyz", `"redis":"away"`)
	if status, body := ready(); status != http.StatusOK {
		t.Errorf("when Redis goes away again: %d %s", status, body)
	}
	redis.Restart()
}
