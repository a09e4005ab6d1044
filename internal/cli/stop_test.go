package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// A stopping replica removes its state from Redis, so that the others need not wait until it counts as dead:
// its share of the probes, its permits at limited backends, its calls at drained ones.
func TestStopReleasesSharedState(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	_, _, admin := serve(t, nil, "--config", r.config(t, "replicas: {id: stays}"))
	leaves, public, other := serve(t, nil, "--config", r.config(t, "replicas: {id: leaves}"))
	drain(t, other, r.two)
	blocked := invoke(dial(t, public), gatewaytest.Block)
	check.Received(t, r.first.Blocked(), "the call")
	waitPage(t, "http://"+admin+"/metrics", "\ncapgate_health_replicas 2\n")
	if at := r.named("leaves"); len(at) == 0 {
		t.Error("redis knows nothing of a replica that serves")
	}

	leaves.signal(t, syscall.SIGTERM)
	leaves.stderr.wait(t, leaves, `"msg":"draining"`)
	r.first.Release()
	if err := check.Received(t, blocked, "the end of the held call"); err != nil {
		t.Error(err)
	}
	if exit := leaves.wait(t); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	if at := r.named("leaves"); len(at) > 0 {
		t.Errorf("a replica that has stopped is in %q", at)
	}
	waitPage(t, "http://"+admin+"/metrics", "\ncapgate_health_replicas 1\n")
}

// named returns the keys that describe a replica only while it is alive.
func (r *replicas) named(id string) (keys []string) {
	all, _ := r.redis.Do("KEYS", "*").([]any)
	for _, k := range all {
		key, _ := k.(string)
		// The replica that saw a backend last, or made a call, may be gone.
		if strings.HasSuffix(key, ":page") || strings.HasSuffix(key, "{recent}:calls") {
			continue
		}
		var value any
		switch kind := r.redis.Do("TYPE", key); kind {
		case "zset":
			value = r.redis.Do("ZRANGE", key, 0, -1)
		case "hash":
			value = r.redis.Do("HGETALL", key)
		case "string":
			value = r.redis.Do("GET", key)
		}
		if strings.Contains(fmt.Sprint(value), id) {
			keys = append(keys, key)
		}
	}
	return keys
}

// An unresponsive Redis does not prevent stopping.
func TestStopWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	p, public, _ := serve(t, nil, "--config", writeConfig(t, configOf("redis: "+r.redis.URL(), r.one, r.two)))
	callOnce(t, dial(t, public))
	r.redis.Freeze()
	p.stop(t)
	r.redis.Thaw()
}
