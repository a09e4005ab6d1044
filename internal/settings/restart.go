package settings

import (
	"bytes"
	"maps"
	"slices"

	"github.com/capgate/capgate/internal/config"
)

// NeedsRestart returns the fields of next that are in force only after a restart, for a process that started with s:
// those that config.NeedsRestart returns, and those that name a file with another content.
func (s *Settings) NeedsRestart(next *Settings) []string {
	fields := config.NeedsRestart(s.Config, next.Config)
	for _, f := range []struct {
		section, name string
		same          bool
	}{
		{"secret_file", "secret_file", slices.EqualFunc(s.Secrets, next.Secrets, bytes.Equal)},
		{"traces", "traces.headers_file", maps.Equal(s.TraceHeaders, next.TraceHeaders)},
		{"traces", "traces.tls", s.Backends[s.Config.Traces.Files] == next.Backends[next.Config.Traces.Files]},
	} {
		if !f.same && !slices.Contains(fields, f.section) {
			fields = append(fields, f.name)
		}
	}
	return fields
}
