package cli

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestReadyzWarnsAboutUnusedReplicas: /readyz shows it as a warning, and the gateway stays ready.
func TestReadyzWarnsAboutUnusedReplicas(t *testing.T) {
	t.Parallel()
	redis := redistest.StartReplicated(t)
	for more, warned := range map[string]bool{"": true, ", wait_replicas: 1": false} {
		_, _, admin := serve(t, nil, "--config",
			writeConfig(t, configOf("redis: {url: '"+redis.URL()+"'"+more+"}", taken(t))))
		body := waitPage(t, "http://"+admin+"/readyz", `"ready":true`)
		if got := strings.Contains(body,
			`"warnings":["redis has replicas and redis.wait_replicas is not set`); got != warned ||
			strings.Contains(body, "degraded") {
			t.Errorf("with %q: %s; got %+v", more, body, got)
		}
	}
}
