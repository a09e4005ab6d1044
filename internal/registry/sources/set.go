package sources

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/registry"
)

// Set has the sources of a process.
type Set []Opened

// Open opens all sources. The caller must close the Set.
func Open(settings *Settings, o Options) Set {
	var s Set
	for _, source := range All() {
		s = append(s, source.Open(settings, o))
	}
	return s
}

// Once looks for the backends of all sources once, without registrations.
func Once(ctx context.Context, settings *Settings, o Options) (all []registry.Member, problems []error) {
	for _, source := range All() {
		found, more := source.once(ctx, settings, o)
		all, problems = append(all, found...), append(problems, more...)
	}
	return registry.Merge(all), problems
}

// Try replaces the settings. Until Commit, the former backends are followed as well.
func (s Set) Try(settings *Settings) {
	for i := range s {
		s[i].Try(settings)
	}
}

// Commit ends what is followed only for former settings.
func (s Set) Commit() {
	for i := range s {
		s[i].commit()
	}
}

// Await returns when each source has a first result for all settings. The error is that of ctx.
func (s Set) Await(ctx context.Context) error {
	failed := make([]error, len(s))
	var all sync.WaitGroup
	for i := range s {
		all.Go(func() { failed[i] = s[i].Await(ctx) })
	}
	all.Wait()
	return cmp.Or(failed...)
}

// Members returns the backends of all sources, as registry.Merge does.
func (s Set) Members() []registry.Member {
	all := make([][]registry.Member, len(s))
	for i := range s {
		all[i] = s[i].Members()
	}
	return registry.Merge(all...)
}

// Find returns the backend of a capability with an address.
func (s Set) Find(capability, addr string) (m registry.Member, ok bool) {
	for i := range s {
		one, has := registry.Find(s[i].Members(), capability, addr)
		if has && (!ok || one.Source.Compare(m.Source) < 0) {
			m, ok = one, true
		}
	}
	return m, ok
}

// Manifest returns a manifest that members have, or nil.
func (s Set) Manifest(sum registry.Sum) (m registry.Document) {
	for i := 0; i < len(s) && m == nil; i++ {
		if s[i].Manifest != nil {
			m = s[i].Manifest(sum)
		}
	}
	return m
}

// Warnings returns what operators should know.
func (s Set) Warnings() (all []string) {
	for i := range s {
		all = append(all, s[i].warnings()...)
	}
	return all
}

// Metrics returns the metrics of each source.
func (s Set) Metrics() (all []metric.Source) {
	for i := range s {
		all = append(all, s[i])
	}
	return all
}

// Close closes all sources after their Run.
func (s Set) Close() {
	for i := range s {
		s[i].close()
	}
}

// Found reports whether a source finds backends of a fleet by a field of the fleet.
func (f *Fields) Found() bool {
	for _, source := range All() {
		if source.Finds != nil && source.Finds(f) {
			return true
		}
	}
	return false
}

// FieldNames returns the names of the fields of a fleet.
func FieldNames() (names []string) {
	of := reflect.TypeFor[Fields]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}

// Announced reports whether there may be capabilities without a fleet.
func (s *Sections) Announced() bool {
	for _, source := range All() {
		if source.Policy == nil {
			continue
		}
		if _, announces := source.Policy(s); announces {
			return true
		}
	}
	return false
}

// OnlyStricter reports whether manifests of a member's source may only be stricter than the policy of their fleet.
func (s *Sections) OnlyStricter(name registry.Source) bool {
	return slices.ContainsFunc(All(), func(source Source) bool { return source.Name == name && source.OnlyStricter })
}

// Policy returns the policy of a capability that has no fleet, for a member's source.
func (s *Sections) Policy(name registry.Source) call.Verdict {
	for _, source := range All() {
		if source.Name == name && source.Policy != nil {
			policy, _ := source.Policy(s)
			return policy
		}
	}
	return call.Block
}
