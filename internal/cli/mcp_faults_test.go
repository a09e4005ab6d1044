package cli

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// faultsPage makes TestMCPFaults run all scenarios instead of a few.
//
//nolint:gochecknoglobals // a flag
var faultsPage = flag.String("mcpfaults", "", "run all scenarios with faults, and write this page")

// fault describes a fault before each message of a scenario.
type fault struct {
	name     string        // in the page
	slow     bool          // for the page alone
	patience time.Duration // with Redis; it counts as unavailable then
	// strikes returns a function that undoes it, and waits until the gateways work as before.
	strikes func(t *testing.T, s *faulty) (heals func(t *testing.T))
	errors  []string // permitted errors of a message during the fault
}

// brokenOff is the error of a message whose gateway ends before its response.
const brokenOff = "connection lost"

func mcpFaults() []fault {
	const busy, soon = 10 * time.Second, 500 * time.Millisecond
	return []fault{
		{name: "a replica is killed", patience: busy, strikes: killsReplica, errors: []string{brokenOff}},
		{name: "a server is killed", patience: busy, strikes: killsServer,
			errors: []string{"UPSTREAM_LOST", "BACKEND_UNREACHABLE", "NO_HEALTHY_BACKEND"}},
		{name: "Redis is frozen for 5 s", slow: true, patience: soon, strikes: freezesRedis,
			errors: []string{"MCP_ANSWER_LOST", "MCP_LEVEL_LOST", "MCP_SUBSCRIPTION_LOST"}},
	}
}

// killsReplica kills the gateway that got the last message.
func killsReplica(_ *testing.T, s *faulty) (heals func(*testing.T)) {
	g := s.spread.last.Load()
	g.kill()
	return func(t *testing.T) {
		t.Helper()
		s.startGateway(t, g)
		s.knows(t, g)
		s.settled(t)
	}
}

// killsServer kills the server that got the last message of a gateway.
func killsServer(_ *testing.T, s *faulty) (heals func(*testing.T)) {
	b := s.calls.last.Load()
	b.kill()
	return func(t *testing.T) {
		t.Helper()
		b.start(t, s.revision)
		s.settled(t)
	}
}

const freezing = 5 * time.Second

func freezesRedis(_ *testing.T, s *faulty) (heals func(*testing.T)) {
	s.redis.Freeze()
	thaw := time.After(freezing)
	return func(t *testing.T) {
		t.Helper()
		<-thaw
		s.redis.Thaw()
		s.settled(t)
	}
}

// settled waits until each gateway has Redis and all servers.
func (s *faulty) settled(t *testing.T) {
	t.Helper()
	for _, g := range s.gateways {
		waitPage(t, "http://"+g.admin+"/readyz", `"redis":"ok"`)
		check.Until(t, "all servers to be up", func() (bool, string) {
			_, text := page(t, "http://"+g.admin+"/v1/fleets")
			return strings.Count(text, `"state":"up"`) == len(s.servers)+1, text
		})
	}
}

// trial is a run of a scenario.
type trial struct {
	passed   bool
	messages int
	struck   bool
	errors   map[string]bool
	out      string
}

// try runs a scenario, and strikes before a message; 0 means never.
func (s *faulty) try(t *testing.T, scenario string, of fault, before int) trial {
	t.Helper()
	var heals func(*testing.T)
	s.requests.watch(func(message int) {
		if message == before {
			heals = of.strikes(t, s)
		}
	})
	const patience = 10
	out, err := conformance(t, patience, "server", "--url", s.url, "--scenario", scenario, "--spec-version",
		s.revision).CombinedOutput()
	messages, errors := s.requests.report()
	if heals != nil {
		heals(t)
	}
	return trial{err == nil, messages, heals != nil, errors, string(out)}
}

// cell has the results of a scenario with a fault at each place.
type cell struct {
	passed, trials, messages int
	errors                   map[string]bool
}

func (c cell) String() string {
	switch {
	case c.trials == 0:
		return "–"
	case c.passed == c.trials:
		return "passes"
	}
	return fmt.Sprintf("passes %d of %d times; `%s`", c.passed, c.trials,
		strings.Join(slices.Sorted(maps.Keys(c.errors)), "`, `"))
}

// suffers runs a scenario without faults, and then with one at each place. Each trial passes, or a message got an error
// of the fault.
func (s *faulty) suffers(t *testing.T, scenario string, of fault) cell {
	t.Helper()
	clean := s.try(t, scenario, of, 0)
	c := cell{messages: clean.messages, errors: map[string]bool{}}
	if !clean.passed {
		t.Errorf("%s fails without a fault:\n%s", scenario, clean.out)
		return c
	}
	for before := 1; before <= clean.messages; before++ {
		now := s.try(t, scenario, of, before)
		if !now.struck {
			continue // it has fewer messages this time
		}
		if c.trials++; now.passed {
			c.passed++
			continue
		}
		maps.DeleteFunc(now.errors, func(e string, _ bool) bool { return clean.errors[e] })
		for e := range now.errors {
			if c.errors[e] = true; !slices.Contains(of.errors, e) {
				t.Errorf("%s, %s before message %d: %s\n%s", scenario, of.name, before, e, now.out)
			}
		}
		if len(now.errors) == 0 {
			t.Errorf("%s, %s before message %d: it fails, and no message has an error\n%s", scenario, of.name, before,
				now.out)
		}
	}
	return c
}

// TestMCPFaults: with a fault between two messages, a scenario of the official suite passes or gets an error of that
// fault, and no call runs twice.
func TestMCPFaults(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	cells := map[[3]string]cell{} // by revision, scenario and fault
	few := map[string][]string{"2025-11-25": {"tools-call-elicitation"},
		"2026-07-28": {"input-required-result-multi-round"}}
	t.Run("all", func(t *testing.T) {
		for revision, scenarios := range few {
			for _, of := range mcpFaults() {
				if *faultsPage != "" {
					scenarios = passingScenarios(t, revision)
				} else if of.slow {
					continue
				}
				t.Run(revision+" "+of.name, func(t *testing.T) {
					t.Parallel()
					s := startFaulty(t, revision, of.patience)
					for _, scenario := range scenarios {
						c := s.suffers(t, scenario, of)
						t.Log(scenario, c)
						mu.Lock()
						cells[[3]string{revision, scenario, of.name}] = c
						mu.Unlock()
					}
					s.calls.once(t)
				})
			}
		}
	})
	if *faultsPage != "" && !t.Failed() {
		writeFaults(t, cells)
	}
}

// changesTools is a scenario that changes the tools of one server, but servers of a fleet must have the same tools.
const changesTools = "server-stateless"

// passingScenarios returns the scenarios that a revision requires, without those that fail without faults.
func passingScenarios(t *testing.T, revision string) []string {
	t.Helper()
	fails := append(failingScenarios(t, revision), changesTools)
	return slices.DeleteFunc(requirements(t, revision).Server, func(s string) bool { return slices.Contains(fails, s) })
}

// failingScenarios returns the scenarios in which something fails.
func failingScenarios(t *testing.T, revision string) (scenarios []string) {
	t.Helper()
	for _, entry := range readRequired(t, filepath.Join("testdata", "mcp", revision+".yaml")).Server {
		scenario, _, _ := strings.Cut(entry, ":")
		scenarios = append(scenarios, scenario)
	}
	return scenarios
}

var reasonText = regexp.MustCompile(`"reason":"([A-Z_]+)"`) //nolint:gochecknoglobals // a constant
