package app

import (
	"strings"
	"time"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
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

// detail is what /readyz says.
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

// metric returns the values for a scrape.
func (l *loads) metric() telemetry.ConfigLoads {
	return telemetry.ConfigLoads{Failures: l.failures, Failed: l.failure != nil, LastSuccess: l.at}
}
