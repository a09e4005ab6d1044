package app

import (
	"strings"
	"time"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/settings"
)

// loads counts the configuration's loads since the process started. It is immutable.
type loads struct {
	at       time.Time // when the one in force was loaded
	failures int64
	failure  error // why the newest is not in force; nil: it is
	restart  []string
}

func (l *loads) succeeded(restart []string) *loads {
	return &loads{at: time.Now(), failures: l.failures, restart: restart}
}

func (l *loads) failed(err error) *loads {
	return &loads{at: l.at, failures: l.failures + 1, failure: err, restart: l.restart}
}

// detail is the body of /readyz.
func (l *loads) detail() gateway.ConfigState {
	s := gateway.ConfigState{LoadedAt: l.at.UTC().Truncate(time.Second), NeedsRestart: l.restart}
	if l.failure != nil {
		problems := settings.Problems(l.failure)
		var lines []string
		for _, p := range problems[:min(len(problems), maxProblems)] {
			lines = append(lines, p.Error())
		}
		if more := len(problems) - len(lines); more > 0 {
			lines = append(lines, moreProblems(more))
		}
		s.Error = strings.Join(lines, "\n")
	}
	return s
}

// Metrics implements metric.Source.
func (r *reloader) Metrics() *metric.Set {
	m := metric.New("capgate_config_")
	failures := m.Add("reload_failures_total", "Reloads of the configuration that failed because a file was invalid.")
	successful := m.Add("last_reload_successful", "1 if the newest configuration is in force.")
	loaded := m.Add("last_reload_success_timestamp_seconds", "When the configuration in force was loaded.")
	m.Read = func(w metric.Writer) {
		l := r.loads.Load()
		w.Count(failures, l.failures)
		w.Flag(successful, l.failure == nil)
		w.Gauge(loaded, float64(l.at.UnixMilli())/1000)
	}
	return m
}
