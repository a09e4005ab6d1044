package cli

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// faultyConfig returns a configuration for tests of a failing Redis. On a busy machine, probes may be late;
// these tests tolerate that.
func faultyConfig(t *testing.T, redis string, backends ...string) string {
	t.Helper()
	more := "redis: {url: '" + redis + "', timeout: 500ms}\nreplicas: {heartbeat: 500ms}"
	return writeConfig(t, strings.Replace(configOf(more, backends...), patientProbes,
		"health: {interval: 20s, timeout: 20s}", 1))
}

// Calls continue with any fault of Redis: none fails, and no backend is ejected.
func TestCallsSurviveRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := gatewaytest.NewCapability("one").Serve(t, call.Doc),
		gatewaytest.NewCapability("two").Serve(t, call.Live)
	server.Kill()
	p, public, admin := serve(t, nil, "--config", faultyConfig(t, server.URL(), one.Addr, two.Addr))
	ready, metrics := "http://"+admin+"/readyz", "http://"+admin+"/metrics"
	calls := startLoad(t, 4, dial(t, public))
	calls.during(t, "away at the start", func() { waitPage(t, ready, `"degraded":true,"redis":"away"`) })
	server.Restart()
	waitPage(t, ready, `"redis":"ok"`)
	waitBoard(t, server, one.Addr, two.Addr)

	for _, fault := range []struct {
		name       string
		does, ends func()
	}{
		{"slow", func() { server.Delay(2 * time.Second) }, server.Heal},
		{"black hole", server.BlackHole, server.Heal},
		{"frozen", server.Freeze, server.Thaw},
		{"killed, and restarted empty", server.Kill, server.Restart},
	} {
		fault.does()
		calls.during(t, fault.name, func() {
			waitPage(t, ready, `"redis":"away"`)
			waitMetric(t, metrics, "capgate_health_staleness_seconds", func(s float64) bool { return s > 2 })
		})
		fault.ends()
		calls.during(t, fault.name+": over", func() {
			waitPage(t, ready, `"redis":"ok"`)
			waitMetric(t, metrics, "capgate_health_staleness_seconds", func(s float64) bool { return s < 2 })
			waitBoard(t, server, one.Addr, two.Addr)
		})
	}
	calls.during(t, "emptied", func() {
		server.Do("FLUSHALL")
		waitBoard(t, server, one.Addr, two.Addr)
	})
	calls.during(t, "full", func() {
		before := waitMetric(t, metrics, "capgate_redis_errors_total", func(float64) bool { return true })
		server.Fill()
		waitMetric(t, metrics, "capgate_redis_errors_total", func(n float64) bool { return n > before })
		server.Relieve()
	})
	calls.during(t, "malformed", func() {
		server.Do("HSET", boardKey, "nonsense", "x", "v", "1", "caps "+one.Addr+" 0", "down!")
		server.Do("PUBLISH", "cg:health", "page of nonsense")
		waitMetric(t, metrics, "capgate_redis_malformed_total", func(n float64) bool { return n >= 3 })
	})
	calls.end()
	p.stop(t)
	noBackendOut(t, p)
}

// noBackendOut fails the test if a gateway has ejected a backend.
func noBackendOut(t *testing.T, p *program) {
	t.Helper()
	for line := range strings.Lines(p.stderr.String()) {
		if strings.Contains(line, `"msg":"backend down"`) || strings.Contains(line, `"msg":"backend ejected"`) {
			t.Errorf("a backend was ejected because of Redis: %s", line)
		}
	}
}

// boardKey is the key of the votes on the backends of "caps".
var boardKey = fmt.Sprintf("cg:{health:%d}:page", health.ShardOf("caps")) //nolint:gochecknoglobals // a constant

// waitBoard waits until Redis has the replicas' observations of backends.
func waitBoard(t *testing.T, server *redistest.Server, backends ...string) {
	t.Helper()
	check.Until(t, "what is known to be written again", func() (bool, string) {
		text := fmt.Sprint(server.Do("HGETALL", boardKey))
		missing := false
		for _, b := range backends {
			missing = missing || !strings.Contains(text, b)
		}
		return !missing, fmt.Sprintf("what is known was not written again: %s", text)
	})
}

// Another server becomes the master while calls run.
func TestCallsSurviveFailover(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc)
	p, public, admin := serve(t, nil, "--config", faultyConfig(t, sentinel.URL(), backend.Addr))
	ready := "http://" + admin + "/readyz"
	calls := startLoad(t, 4, dial(t, public))
	waitPage(t, ready, `"redis":"ok"`)
	calls.during(t, "failover", func() {
		sentinel.Failover()
		waitPage(t, ready, `"redis":"ok"`)
	})
	calls.end()
	p.stop(t)
	noBackendOut(t, p)
}

// No call queries Redis, at any rate of calls.
func TestCallsSendNoCommandsToRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc)
	_, public, admin := serve(t, nil, "--config", faultyConfig(t, server.URL(), backend.Addr))
	calls := startLoad(t, 32, dial(t, public))
	for calls.calls.Load() < 10_000 {
		calls.more(t, 1000)
	}
	calls.end()
	_, metrics := page(t, "http://"+admin+"/metrics")
	for _, purpose := range []string{"session", "slots"} {
		if n := metric(t, metrics, `capgate_redis_commands_total{for="`+purpose+`"}`); n != 0 {
			t.Errorf("%d calls: %v commands for %s", calls.calls.Load(), n, purpose)
		}
	}
	if metric(t, metrics, `capgate_redis_commands_total{for="watch"}`) == 0 {
		t.Error("no command at all: the metric counts nothing")
	}
}

// waitMetric waits until good accepts the value of a series in a page of metrics.
func waitMetric(t *testing.T, url, series string, good func(float64) bool) (v float64) {
	t.Helper()
	check.Until(t, series, func() (bool, string) {
		_, text := page(t, url)
		v = metric(t, text, series)
		return good(v), fmt.Sprint(v)
	})
	return v
}

// metric returns the value of a series in a page of metrics.
func metric(t *testing.T, text, series string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			check.Must(t, err)
			return v
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}
