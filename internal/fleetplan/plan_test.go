package app

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/announced"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// settingsOf are settings with n fleets of which each has so many backends.
func settingsOf(n, backends int) *settings.Settings {
	cfg := config.Default()
	for i := range n {
		f := config.DefaultFleet(fmt.Sprintf("capability-%05d", i))
		for j := range backends {
			f.Backends = append(f.Backends, config.DefaultBackend(fmt.Sprintf("10.%d.%d.%d:50051", i/256, i%256, j)))
		}
		cfg.Fleets = append(cfg.Fleets, f)
	}
	return &settings.Settings{Config: cfg}
}

// A plan has the backends of the file and those that came since, each once.
func TestPlanTakesMembers(t *testing.T) {
	t.Parallel()
	p := &planner{}
	s := settingsOf(3, 1)
	next := p.plan(s, []registry.Member{
		{Capability: "another", Addr: "10.9.9.9:1"},
		{Capability: "capability-00001", Addr: "10.0.1.0:50051", Weight: 7}, // in the file
		{Capability: "capability-00001", Addr: "10.1.1.1:1", Weight: 50, Zone: "z"},
		{Capability: "capability-00001", Addr: "10.1.1.2:1"},
	})
	want := []router.BackendConfig{{Addr: "10.0.1.0:50051", Weight: 100},
		{Addr: "10.1.1.1:1", Weight: 50, Zone: "z"}, {Addr: "10.1.1.2:1", Weight: -1}}
	if got := next.routes.Fleets[1].Backends; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := next.probes[1].Backends; !slices.Equal(got, []string{"10.0.1.0:50051", "10.1.1.1:1", "10.1.1.2:1"}) {
		t.Errorf("%v", got)
	}
	for _, i := range []int{0, 2} {
		if n := len(next.routes.Fleets[i].Backends); n != 1 {
			t.Errorf("fleet %d has %d backends", i, n)
		}
	}
}

// What a manifest that backends bring says is the fleet's, where the file says nothing and names none.
func TestPlanTakesManifests(t *testing.T) {
	t.Parallel()
	texts := map[registry.Sum]string{}
	bring := func(capability string, concurrent int) registry.Member {
		m := registry.NewManifest(fmt.Sprintf("id: %s\nimage: i\nsharing: {mode: shared, max_concurrent: "+
			"%d}\nresources: {max_cpu_seconds: 7}\n", capability, concurrent))
		texts[m.Sum] = m.Text
		return registry.Member{Capability: capability, Manifest: m.Sum}
	}
	p := &planner{brought: announced.Manifests{Text: func(sum registry.Sum) string { return texts[sum] },
		Log: slog.New(slog.DiscardHandler)}}
	s := settingsOf(3, 0)
	s.Config.Fleets[1].Manifest = "own"
	s.Manifests = map[string]*manifest.Manifest{"own": {}}
	s.Config.Fleets[2].MaxConcurrent, s.Config.Fleets[2].Own.MaxConcurrent = 5, true
	members := []registry.Member{bring("another", 1), bring("capability-00000", 2), bring("capability-00000", 3),
		bring("capability-00000", 3), bring("capability-00001", 4), bring("capability-00002", 4)}
	for i := range members {
		members[i].Addr = fmt.Sprintf("10.9.9.%d:1", i)
	}
	type limits struct {
		calls    int
		deadline time.Duration // the default, whatever max_cpu_seconds is
	}
	plan := func() (got []limits) {
		for _, f := range p.plan(s, members).routes.Fleets {
			got = append(got, limits{f.Limit.PerBackend, f.Deadlines.Default})
		}
		return got
	}
	want := []limits{{3, 2 * time.Minute}, {0, 2 * time.Minute}, {5, 2 * time.Minute}, {1, 2 * time.Minute}}
	if got := plan(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	before := p.fleets["capability-00000"]
	if plan(); p.fleets["capability-00000"] != before {
		t.Error("a fleet changed of which nothing did")
	}
	members[2].Manifest = registry.Sum{} // each of the others has one vote
	least := min(members[1].Manifest.String(), members[3].Manifest.String())
	want[0].calls = map[string]int{members[1].Manifest.String(): 2, members[3].Manifest.String(): 3}[least]
	if got := plan(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	clear(texts)
	members = members[:1] // what is in force needs its text no more
	if got := plan(); !slices.Equal(got[2:], []limits{{5, 2 * time.Minute}, want[3]}) || held(p) != 1 {
		t.Errorf("%v; p %+v", got, p)
	}
}

// While backends are replaced two manifests are brought: the tools of both are there for the catalog.
func TestPlanKeepsToolsOfOtherManifests(t *testing.T) {
	t.Parallel()
	texts := map[registry.Sum]string{}
	bring := func(addr string, tools ...string) registry.Member {
		text := "id: caps\nimage: i\ntools:\n"
		for _, tool := range tools {
			text += fmt.Sprintf("  - {name: %s, description: d, input_schema: {}}\n", tool)
		}
		m := registry.NewManifest(text)
		texts[m.Sum] = m.Text
		return registry.Member{Capability: "caps", Addr: addr, Manifest: m.Sum}
	}
	p := &planner{brought: announced.Manifests{Text: func(sum registry.Sum) string { return texts[sum] },
		Log: slog.New(slog.DiscardHandler)}}
	before, also, after := bring("a:1", "x", "y", "w"), bring("b:1", "x", "y", "w"), bring("c:1", "x", "z")
	for _, test := range []struct {
		members   []registry.Member
		elsewhere string
	}{
		{[]registry.Member{before, also}, ""},
		{[]registry.Member{before, also, after}, "z"},
		{[]registry.Member{before, after, {Capability: "caps", Addr: "d:1", Manifest: after.Manifest}}, "w\ny"},
		{[]registry.Member{after}, ""},
		{nil, ""},
	} {
		s := settingsOf(0, 0)
		if got := p.plan(s, test.members).tools["caps"].ToolsElsewhere; got != test.elsewhere {
			t.Errorf("%+v: %q", test.members, got)
		}
	}
	if _, inEffect := p.brought.Held(); inEffect != 0 {
		t.Error("remembered although nobody brings any")
	}
}

// Of many nudges one is left to be answered.
func TestNudge(t *testing.T) {
	t.Parallel()
	r := newReloader(&App{}, settingsOf(1, 1))
	for range 3 {
		r.nudge()
	}
	if n := len(r.wake); n != 1 {
		t.Errorf("%d notes", n)
	}
}

// One backend joins one of 10,000 fleets: what its plan and its table cost.
func BenchmarkOneOf10000(b *testing.B) {
	p := &planner{}
	s := settingsOf(10_000, 10)
	table, err := router.NewTable(p.plan(s, nil).routes, nil)
	check.Must(b, err)
	r := router.New(table)
	members := []registry.Member{{Capability: "capability-05000", Addr: "10.200.0.1:1", Weight: 100}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next, err := router.NewTable(p.plan(s, members[:i%2]).routes, r.Table())
		check.Must(b, err)
		r.Swap(next)
	}
}

// held returns how many announced manifests a planner keeps.
func held(p *planner) int {
	n, _ := p.brought.Held()
	return n
}
