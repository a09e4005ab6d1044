package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/config"
)

// TestHostsOfPorts: the ports accept the hosts of the file and those that its addresses imply, and no others.
func TestHostsOfPorts(t *testing.T) {
	t.Parallel()
	cfg := local()
	cfg.Listen, cfg.Admin = "caps.internal:0", "ops.internal:0"
	cfg.PublicURL, cfg.AdminURL = "https://caps.example/x", "https://admin.example:8443"
	cfg.Hosts, cfg.Domains = []string{"alias.example"}, []string{"tools.example"}
	cfg.Listeners = []config.Listener{{Address: "side.internal:1"}}
	names := hostsOf(cfg)
	for host, want := range map[string][2]bool{
		"caps.internal": {true, false}, "caps.example": {true, false}, "alias.example": {true, false},
		"tools.example": {true, false}, "one.tools.example": {true, false}, "side.internal": {true, false},
		"ops.internal": {false, true}, "admin.example": {false, true}, "evil.example": {},
	} {
		if got := [2]bool{names.Public.Allows(host, nil), names.Admin.Allows(host, nil)}; got != want {
			t.Errorf("%s: public, admin %v, want %v", host, got, want)
		}
	}
}

// TestMemoryPools: the pools fit into the memory of the process, and never fall below what the longest message needs.
func TestMemoryPools(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{0, 1 << 20, 256 << 20, 4 << 30, 64 << 30} {
		m := newMemoryPools(memory)
		if m.all < 2*leastHeld || m.all > 2*mostHeld || m.bodies < leastHeld || m.bodies > mostHeld ||
			m.shard < leastHeld {
			t.Errorf("%d: %+v", memory, m)
		}
		if memory >= 256<<20 && (m.all > memory/4*3 || m.bodies > memory/bodyFraction) {
			t.Errorf("%d: %+v is more than there is", memory, m)
		}
	}
}

// TestFirstProbes: the start waits until each backend of each fleet was probed once, or its context ends.
func TestFirstProbes(t *testing.T) {
	t.Parallel()
	f := newFirstProbes()
	f.begin([]health.Fleet{{Capability: "a", Backends: []string{"x", "y"}}, {Capability: "b", Backends: []string{"z"}},
		{Capability: "empty"}})
	for _, step := range []struct {
		snapshot *health.Snapshot
		done     bool
	}{
		{health.NewSnapshot("b", []health.Backend{{State: health.Up}}), false},
		{health.NewSnapshot("b", []health.Backend{{State: health.Up}}), false}, // again
		{health.NewSnapshot("a", []health.Backend{{State: health.Up}, {State: health.Unknown}}), false},
		{health.NewSnapshot("a", []health.Backend{{State: health.Up}, {State: health.Down}}), true},
	} {
		f.probed(step.snapshot)
		select {
		case <-f.done:
			if !step.done {
				t.Errorf("done after %+v", step.snapshot)
			}
		default:
			if step.done {
				t.Errorf("not done after %+v", step.snapshot)
			}
		}
	}
}

// TestReplicaID: each process has a name of its own, unless the file gives one.
func TestReplicaID(t *testing.T) {
	t.Parallel()
	if got := replicaID("east-1"); got != "east-1" {
		t.Error(got)
	}
	if a, b := replicaID("auto"), replicaID("auto"); a == b || a == "auto" {
		t.Error(a, b)
	}
}

// TestFailureInReadiness: /readyz has the first problems of a file, and how many more there are.
func TestFailureInReadiness(t *testing.T) {
	t.Parallel()
	var all []error
	for range maxProblems + 2 {
		all = append(all, errors.New("wrong"))
	}
	lines := strings.Split((&loads{}).failed(errors.Join(all...)).detail().Error, "\n")
	if len(lines) != maxProblems+1 || lines[maxProblems] != "and 2 more problems" {
		t.Errorf("%q", lines)
	}
}

// TestTroubleOfAReplica: what other replicas show of this one is one short line. Without a template
// there are no links.
func TestTroubleOfAReplica(t *testing.T) {
	t.Parallel()
	line := shortLine(strings.Repeat("é", 300) + "\nsecond")
	if len(line) > 500 || strings.ContainsAny(line, "\n\uFFFD") {
		t.Errorf("%q", line)
	}
	link := traceLink("https://traces.example/{trace_id}?x={trace_id}")
	if got := link("7"); got != "https://traces.example/7?x=7" {
		t.Error(got)
	}
	if traceLink("") != nil {
		t.Error("a link without a template")
	}
}
