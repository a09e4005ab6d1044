package fleetplan

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// settingsOf returns settings with n fleets and the given number of backends in each.
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

// parsed returns the manifests of texts.
func parsed(texts map[registry.Sum]string) func(registry.Sum) *manifest.Manifest {
	return func(sum registry.Sum) *manifest.Manifest {
		m, err := manifest.Parse("manifest", []byte(texts[sum]))
		if err != nil {
			return nil
		}
		return m
	}
}

// TestPlanTakesMembers: a plan has the backends of the file and the registered ones, each once.
func TestPlanTakesMembers(t *testing.T) {
	t.Parallel()
	p := &Planner{}
	s := settingsOf(3, 1)
	next := p.Plan(s, []registry.Member{
		{Capability: "another", Addr: "10.9.9.9:1"},
		{Capability: "capability-00001", Addr: "10.0.1.0:50051", Weight: 7}, // in the file
		{Capability: "capability-00001", Addr: "10.1.1.1:1", Weight: 50, Zone: "z"},
		{Capability: "capability-00001", Addr: "10.1.1.2:1"},
	})
	want := []router.BackendConfig{{Addr: "10.0.1.0:50051", Weight: 100},
		{Addr: "10.1.1.1:1", Weight: 50, Zone: "z"}, {Addr: "10.1.1.2:1", Weight: -1}}
	if got := next.Routes.Fleets[1].Backends; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := next.Probes[1].Backends; !slices.Equal(got, []string{"10.0.1.0:50051", "10.1.1.1:1", "10.1.1.2:1"}) {
		t.Errorf("%v", got)
	}
	for _, i := range []int{0, 2} {
		if n := len(next.Routes.Fleets[i].Backends); n != 1 {
			t.Errorf("fleet %d has %d backends", i, n)
		}
	}
}

// TestPlanTakesManifests: a manifest that backends send applies to the fleet if the file has no setting and names no
// manifest.
func TestPlanTakesManifests(t *testing.T) {
	t.Parallel()
	texts := map[registry.Sum]string{}
	bring := func(capability string, concurrent int) registry.Member {
		m := registry.NewManifest(fmt.Sprintf("id: %s\nimage: i\nsharing: {mode: shared, max_concurrent: "+
			"%d}\nresources: {max_cpu_seconds: 7}\n", capability, concurrent))
		texts[m.Sum] = m.Text
		return registry.Member{Capability: capability, Manifest: m.Sum}
	}
	p := &Planner{Manifest: parsed(texts), Log: slog.New(slog.DiscardHandler)}
	s := settingsOf(3, 0)
	s.Config.Fleets[1].ManifestFile = "own"
	s.Manifests = map[string]*manifest.Manifest{"own": {}}
	s.Config.Fleets[2].Limit.PerBackend, s.Config.Fleets[2].Own.MaxConcurrent = 5, true
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
		for _, f := range p.Plan(s, members).Routes.Fleets {
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
	if got := plan(); !slices.Equal(got[2:], []limits{{5, 2 * time.Minute}, want[3]}) || len(p.announced.known) != 1 {
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
	p := &Planner{Manifest: parsed(texts), Log: slog.New(slog.DiscardHandler)}
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
		if got := p.Plan(s, test.members).Tools["caps"].ToolsElsewhere; got != test.elsewhere {
			t.Errorf("%+v: %q", test.members, got)
		}
	}
	if len(p.announced.inEffect) != 0 {
		t.Error("remembered although nobody brings any")
	}
}

// TestManifestsOfTheClusterAreOnlyStricter: the policy of watch, or of a fleet in the file, limits the recommendations
// of a Kubernetes manifest, even if registered backends send the same one. Manifests that backends send may recommend
// anything.
func TestManifestsOfTheClusterAreOnlyStricter(t *testing.T) {
	t.Parallel()
	texts := map[registry.Sum]string{}
	bring := func(addr, image string, source registry.Source) registry.Member {
		m := registry.NewManifest("id: capability-00000\nimage: " + image + "\n")
		texts[m.Sum] = m.Text
		return registry.Member{Capability: "capability-00000", Addr: addr, Manifest: m.Sum, Source: source}
	}
	p := &Planner{Manifest: parsed(texts), Log: slog.New(slog.DiscardHandler)}
	pod, leased := bring("a:1", "x", kubernetes.Name), bring("b:1", "y", registry.Lease)
	also, same := bring("c:1", "y", registry.Lease), bring("d:1", "y", kubernetes.Name)
	for fleets := range 2 { // in the file
		s := settingsOf(fleets, 0)
		for i, test := range []struct {
			members  []registry.Member
			stricter bool
		}{
			{[]registry.Member{pod}, true},
			{[]registry.Member{leased}, false},
			{[]registry.Member{pod, leased, also}, false}, // its manifest does not count
			{[]registry.Member{leased, same}, true},
			{nil, false},
		} {
			if got := p.Plan(s, test.members).Tools["capability-00000"].OnlyStricter; got != test.stricter {
				t.Errorf("%d fleets, case %d: %v", fleets, i, got)
			}
		}
	}
	s := settingsOf(1, 0)
	s.Config.Fleets[0].ManifestFile = "own"
	s.Manifests = map[string]*manifest.Manifest{"own": {}}
	if p.Plan(s, []registry.Member{pod}).Tools["capability-00000"].OnlyStricter {
		t.Error("the manifest of the file")
	}
}

// TestFleetsOfMembers: a fleet that only members serve has the registration's policy and the default Shield, and the
// session of a member belongs to a tenant.
func TestFleetsOfMembers(t *testing.T) {
	t.Parallel()
	s := settingsOf(0, 0)
	s.Config.Registration.Policy, s.Config.Shield = call.Ask, "main"
	members := []registry.Member{{Capability: "a", Addr: "10.1.1.1:1", Session: "s"},
		{Capability: "a", Addr: "10.1.1.2:1", Session: "s", Tenant: "acme"}, {Capability: "a", Addr: "10.1.1.3:1"}}
	for i := range members {
		members[i].Source = registry.Lease
	}
	next := (&Planner{}).Plan(s, members)
	if got := next.Tools["a"].Policy; got != call.Ask {
		t.Errorf("policy %v", got)
	}
	if got := next.Shields["a"]; got != "main" {
		t.Errorf("shield %q", got)
	}
	var owners []string
	for _, b := range next.Routes.Fleets[0].Backends {
		owners = append(owners, b.Tenant)
	}
	if !slices.Equal(owners, []string{tenant.Default, "acme", ""}) {
		t.Errorf("owners %q", owners)
	}
}

// TestCredentialsOfAFleet: a fleet that enforces the credentials of its manifest allows none while it has no manifest.
func TestCredentialsOfAFleet(t *testing.T) {
	t.Parallel()
	const text = `{"TOKEN":"x"}`
	declared := &manifest.Manifest{Credentials: []manifest.Credential{{Name: "TOKEN"}}}
	for _, test := range []struct {
		enforce bool
		m       *manifest.Manifest
		want    bool
	}{{false, nil, true}, {true, nil, false}, {true, &manifest.Manifest{}, false}, {true, declared, true}} {
		f := config.DefaultFleet("a")
		f.Enforce = test.enforce
		names := credentialsOf(&f, test.m)
		if got := names == nil || names.Check([]byte(text)) == nil; got != test.want {
			t.Errorf("%+v: allowed %t", test, got)
		}
	}
}

// One backend joins one of 10,000 fleets: what its plan and its table cost.
func BenchmarkOneOf10000(b *testing.B) {
	p := &Planner{}
	s := settingsOf(10_000, 10)
	table, err := router.NewTable(p.Plan(s, nil).Routes, nil)
	check.Must(b, err)
	r := router.New(table)
	members := []registry.Member{{Capability: "capability-05000", Addr: "10.200.0.1:1", Weight: 100}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next, err := router.NewTable(p.Plan(s, members[:i%2]).Routes, r.Table())
		check.Must(b, err)
		r.Swap(next)
	}
}

// TestPolicyOfAddedFleets: a capability without a fleet has the policy of the source of its backends, and the strictest
// one of several sources.
func TestPolicyOfAddedFleets(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Registration.Policy, cfg.Kubernetes.Watch.Policy = call.Allow, call.Ask
	next := (&Planner{}).Plan(&settings.Settings{Config: cfg}, []registry.Member{
		{Capability: "a", Addr: "10.1.1.1:1", Source: registry.Lease},
		{Capability: "b", Addr: "10.1.1.1:1", Source: kubernetes.Name},
		{Capability: "c", Addr: "10.1.1.1:1", Source: registry.Lease},
		{Capability: "c", Addr: "10.1.1.2:1", Source: kubernetes.Name},
	})
	for id, want := range map[string]call.Verdict{"a": call.Allow, "b": call.Ask, "c": call.Ask} {
		if got := next.Tools[id].Policy; got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
