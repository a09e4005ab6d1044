package observe

import "github.com/prometheus/client_golang/prometheus"

// Redis is what is to be told of the store that replicas share when somebody scrapes. The
// counters only grow.
type Redis struct {
	Commands  map[string]int64 // sent, by what they were for: a fixed set of words
	Errors    int64            // commands that failed, or were not sent as Redis is away
	Malformed int64            // values that could not be understood
	Up        bool
}

// WatchRedis lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchRedis(ask func() Redis) { m.redis.Store(&ask) }

type redisDescs struct{ commands, errors, malformed, up *prometheus.Desc }

func newRedisDescs() redisDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_redis_"+name, help, labels, nil)
	}
	return redisDescs{
		commands: desc("commands_total", "Commands sent to Redis, by what they were for.", "for"),
		errors:   desc("errors_total", "Commands to Redis that failed, or were not sent as Redis is away."),
		malformed: desc("malformed_total",
			"Values in Redis that could not be understood and were passed over."),
		up: desc("up", "1 if Redis answers, 0 while it is away. An embedded one always answers."),
	}
}

func (d *redisDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{d.commands, d.errors, d.malformed, d.up}
}

func (d *redisDescs) collect(ch chan<- prometheus.Metric, r *Redis) {
	for purpose, n := range r.Commands {
		ch <- prometheus.MustNewConstMetric(d.commands, prometheus.CounterValue, float64(n), purpose)
	}
	ch <- prometheus.MustNewConstMetric(d.errors, prometheus.CounterValue, float64(r.Errors))
	ch <- prometheus.MustNewConstMetric(d.malformed, prometheus.CounterValue, float64(r.Malformed))
	up := 0.0
	if r.Up {
		up = 1
	}
	ch <- prometheus.MustNewConstMetric(d.up, prometheus.GaugeValue, up)
}
