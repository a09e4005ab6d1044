package settings

import (
	"errors"
	"fmt"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/protocols"
)

// readUpstreams reads the files that the settings of fleets name whose backends are served in the process. Unchanged
// content is reused.
func (s *Settings) readUpstreams(before *Settings) (problems []error) {
	s.Upstreams = map[string]*upstream.Fleet{}
	files := fleetFiles{now: s.Files}
	if before != nil {
		files.before = before.Files
	}
	for i := range s.Config.Fleets {
		f := &s.Config.Fleets[i]
		p := protocols.Of(f)
		if p.Open == nil {
			continue
		}
		read, old := &upstream.Fleet{Capability: f.Capability, Protocol: f.Protocol}, (*upstream.Fleet)(nil)
		if before != nil {
			old = before.Upstreams[f.Capability]
		}
		if old != nil && old.Protocol.Traits() != f.Protocol.Traits() {
			old = nil
		}
		if err := p.Read(read, old, files); err != nil {
			for _, problem := range Problems(err) {
				problems = append(problems, fmt.Errorf("fleet %s: %s: %w", f.Capability, p.Field, problem))
			}
		}
		s.Upstreams[f.Capability] = read
	}
	return problems
}

// fleetFiles are the files that the settings of fleets name.
type fleetFiles struct{ now, before Files }

var _ upstream.Files = fleetFiles{}

// Read implements upstream.Files.
func (f fleetFiles) Read(name string) ([]byte, error) { return f.now.Read(name) }

// Unchanged implements upstream.Files.
func (f fleetFiles) Unchanged(name string) bool { return f.now.agree(f.before, name) }

// Wrong implements upstream.Files.
func (f fleetFiles) Wrong(name string, err error) error {
	var all []error
	for _, problem := range Problems(err) {
		all = append(all, wrongFile(name, "%s: %w", name, problem))
	}
	return errors.Join(all...)
}
