package settings

import (
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
		{"redis", "redis.store_key_file", SameKeys(s.Store.StoreKeys, next.Store.StoreKeys)},
		{"approvals", "approvals.key_file", SameKeys(s.ApprovalKeys, next.ApprovalKeys)},
		{"idempotency", "idempotency.key_file", SameKeys(s.IdempotencyKeys, next.IdempotencyKeys)},
		{"traces", "traces.headers_file", maps.Equal(s.TraceHeaders, next.TraceHeaders)},
		{"traces", "traces.tls", s.Backends[s.Config.Traces.TLS] == next.Backends[next.Config.Traces.TLS]},
	} {
		if !f.same && !slices.Contains(fields, f.section) {
			fields = append(fields, f.name)
		}
	}
	return fields
}
