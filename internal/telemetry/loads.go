package telemetry

import "time"

// ConfigLoads is what is to be told of the configuration when somebody scrapes.
type ConfigLoads struct {
	Failures    int64     // reloads that changed nothing, so far
	Failed      bool      // the newest was one
	LastSuccess time.Time // when the configuration in force was loaded
}

// WatchConfig lets every scrape report what loads answers. It may be called from any
// goroutine.
func (m *Metrics) WatchConfig(loads func() ConfigLoads) { m.config.read.Store(&loads) }

func newConfig() *polled[ConfigLoads] {
	m := metrics{prefix: "capgate_config_"}
	failures := m.add("reload_failures_total", "Reloads of the configuration that changed nothing as a file was bad.")
	successful := m.add("last_reload_successful", "1 if the newest configuration is in force.")
	loaded := m.add("last_reload_success_timestamp_seconds", "When the configuration in force was loaded.")
	return &polled[ConfigLoads]{metrics: m, emit: func(t emitter, l ConfigLoads) {
		t.count(failures, l.Failures)
		t.flag(successful, !l.Failed)
		t.gauge(loaded, float64(l.LastSuccess.UnixMilli())/1000)
	}}
}
