package telemetry

import "time"

// ConfigLoads holds figures of the configuration.
type ConfigLoads struct {
	Failures    int64     // failed reloads since the start
	Failed      bool      // the last reload failed
	LastSuccess time.Time // when the configuration in force was loaded
}

// WatchConfig calls loads at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchConfig(loads func() ConfigLoads) { m.config.read.Store(&loads) }

func newConfig() *polled[ConfigLoads] {
	m := metrics{prefix: "capgate_config_"}
	failures := m.add("reload_failures_total", "Reloads of the configuration that failed because a file was invalid.")
	successful := m.add("last_reload_successful", "1 if the newest configuration is in force.")
	loaded := m.add("last_reload_success_timestamp_seconds", "When the configuration in force was loaded.")
	return &polled[ConfigLoads]{metrics: m, emit: func(t emitter, l ConfigLoads) {
		t.count(failures, l.Failures)
		t.flag(successful, !l.Failed)
		t.gauge(loaded, float64(l.LastSuccess.UnixMilli())/1000)
	}}
}
