package catalog_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

func TestWhatIsSaidOfTools(t *testing.T) {
	t.Parallel()
	said := tool(t, "said", "one", "n")
	silent := tool(t, "silent", "two", "n")
	silent.Recommends, silent.Recommended = false, call.Block
	asks := tool(t, "asks", "three", "n")
	asks.Recommended = call.Ask
	m := &manifest.Manifest{ID: "weather", Tools: []manifest.Tool{said, silent, asks}}
	c := catalog.New(catalog.Options{})
	c.Replace(map[string]catalog.Declaration{
		"weather": {Manifest: m},
		"open":    {Manifest: m, Policy: call.Allow, Validate: true},
		"bare":    {Policy: call.Ask},
		"dynamic": {Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}, Policy: call.Allow},
		"secret":  {Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}, Validate: true},
		"strict":  {Manifest: m, OnlyStricter: true},
		"careful": {Manifest: m, Policy: call.Ask, OnlyStricter: true},
		"free":    {Manifest: m, Policy: call.Allow, OnlyStricter: true},
		"lister": {Manifest: &manifest.Manifest{Dynamic: true, DiscoveryTool: "list_tools"}, Policy: call.Ask,
			OnlyStricter: true},
	})
	for _, test := range []struct {
		capability, tool string
		verdict          call.Verdict
		level            policy.Level
		schema, there    bool
	}{
		{"weather", "said", call.Allow, policy.Recommended, false, true},
		{"weather", "asks", call.Ask, policy.Recommended, false, true},
		{"weather", "silent", call.Block, policy.Default, false, true},
		{"weather", "none", call.Block, policy.Default, false, false},
		{"open", "said", call.Allow, policy.Recommended, true, true},
		{"open", "silent", call.Allow, policy.Fleet, true, true},
		{"open", "none", call.Allow, policy.Fleet, false, false},
		{"bare", "said", call.Ask, policy.Fleet, false, false},
		{"dynamic", "said", call.Allow, policy.Fleet, false, false},
		{"dynamic", "list_tools", call.Allow, policy.Recommended, false, false},
		{"secret", "list_tools", call.Allow, policy.Recommended, false, false},
		{"secret", "said", call.Block, policy.Default, false, false},
		{"strict", "said", call.Block, policy.Default, false, true},
		{"strict", "asks", call.Block, policy.Default, false, true},
		{"careful", "said", call.Ask, policy.Fleet, false, true},
		{"careful", "asks", call.Ask, policy.Recommended, false, true},
		{"free", "asks", call.Ask, policy.Recommended, false, true},
		{"free", "said", call.Allow, policy.Recommended, false, true},
		{"lister", "list_tools", call.Ask, policy.Fleet, false, false},
		{"unheard-of", "said", call.Block, policy.Default, false, false},
	} {
		verdict, level, drifted := c.Tool(test.capability, test.tool)
		if verdict != test.verdict || level != test.level || drifted != policy.Accepted {
			t.Errorf("%s %s: %v by %v, drifted %v", test.capability, test.tool, verdict, level, drifted)
		}
		if got, _ := c.Schema(test.capability, test.tool); (got != nil) != test.schema {
			t.Errorf("%s %s: schema %v", test.capability, test.tool, got)
		}
		if got, ok := c.Describe(test.capability, test.tool); ok != test.there || ok &&
			(got.Name != test.tool || got.Hash == toolschema.Hash{} || // a recommendation that is shown counts
				got.Recommends != (test.level == policy.Recommended)) {
			t.Errorf("%s %s is described as %+v, %v", test.capability, test.tool, got, ok)
		}
	}
	want(t, c, "in the author's order", "said", "silent", "asks")
	for capability, there := range map[string]bool{
		"weather": true, "open": true, "bare": false, "dynamic": false, "secret": false, "unheard-of": false,
	} {
		// approvals need the arguments too, and a discovery tool is allowed even if others are not
		if _, known := c.Tools(capability); known != there || c.DependsOnTool(capability) != (there ||
			capability == "bare" || capability == "secret") {
			t.Errorf("%s: known %v, heeded %v", capability, known, c.DependsOnTool(capability))
		}
	}
	if got := c.Capabilities(); !slices.Equal(got, []string{"bare", "careful", "dynamic", "free", "lister",
		"open", "secret", "strict", "weather"}) {
		t.Errorf("%q", got)
	}
	c.Replace(nil)
	if _, there := c.Describe("weather", "said"); there {
		t.Error("there is nothing left")
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	c := catalog.New(catalog.Options{})
	names := credentials.New([]string{"KEY"})
	c.Replace(map[string]catalog.Declaration{
		"closed": {Policy: call.Allow, Credentials: names}, "open": {Policy: call.Allow},
	})
	for capability, want := range map[string]*credentials.Names{"closed": names, "open": nil, "unheard-of": nil} {
		if got := c.Credentials(capability); got != want || c.DependsOnTool(capability) != (want != nil) {
			t.Errorf("%s: %v, heeded %v", capability, got, c.DependsOnTool(capability))
		}
	}
}

func TestLookingCostsNothing(t *testing.T) {
	c := catalog.New(catalog.Options{})
	c.Replace(static(tool(t, "x", "one", "n")))
	if n := testing.AllocsPerRun(100, func() {
		c.Tool("weather", "x")
		c.DependsOnTool("weather")
		c.Schema("weather", "x")
		c.Credentials("weather")
		c.Describe("weather", "x")
		c.Tools("weather")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAChangedToolDrifts: a changed tool drifts, on all replicas, until its new version is accepted.
func TestAChangedToolDrifts(t *testing.T) {
	t.Parallel()
	store := &memory{}
	a, b := catalog.New(catalog.Options{Store: store, Rules: store}),
		catalog.New(catalog.Options{Store: store, Rules: store})
	for _, c := range []*catalog.Catalog{a, b} {
		c.Replace(static(tool(t, "x", "one", "n"), tool(t, "y", "one", "n")))
		c.Read(t.Context())
		want(t, c, "a first sight", "x", "y")
	}
	first, _ := a.Describe("weather", "x")
	for _, c := range []*catalog.Catalog{a, b} {
		c.Replace(static(tool(t, "x", "another", "n"), tool(t, "y", "one", "m")))
		want(t, c, "as soon as it has changed", "x!", "y!")
		c.Read(t.Context())
		want(t, c, "and then", "x!", "y!")
	}
	if verdict, level, drifted := a.Tool("weather", "x"); verdict != call.Allow || level != policy.Recommended ||
		drifted != policy.Drifted {
		t.Errorf("%v by %v, drifted %v", verdict, level, drifted)
	}
	second, _ := a.Describe("weather", "x")
	for _, try := range []struct {
		tool   string
		hash   toolschema.Hash
		reason string
	}{{"x", first.Hash, "TOOL_CHANGED"}, {"y", second.Hash, "TOOL_CHANGED"}, {"none", second.Hash, "TOOL_UNKNOWN"}} {
		err := a.Accept(t.Context(), "weather", try.tool, try.hash)
		if refusal, ok := err.(*call.Refusal); !ok || refusal.Reason != try.reason {
			t.Errorf("%s: %v; ok %+v", try.tool, err, ok)
		}
	}
	want(t, a, "nothing was accepted", "x!", "y!")
	check.Must(t, a.Accept(t.Context(), "weather", "x", second.Hash))
	want(t, a, "at once", "x", "y!")
	b.Read(t.Context())
	want(t, b, "on the other replica", "x", "y!")
	// A replica that starts detects the drift before it serves.
	fresh := catalog.New(catalog.Options{Store: store, Rules: store})
	fresh.Replace(static(tool(t, "x", "another", "n"), tool(t, "y", "one", "m")))
	fresh.Read(t.Context())
	want(t, fresh, "a new replica", "x", "y!")
	// A tool that returns to its accepted version no longer drifts.
	a.Replace(static(tool(t, "x", "one", "n"), tool(t, "y", "one", "n")))
	want(t, a, "back again", "x!", "y")
}

func TestDriftGuardMayBeOff(t *testing.T) {
	t.Parallel()
	store := &memory{}
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	for _, description := range []string{"one", "another"} {
		all := static(tool(t, "x", description, "n"))
		of := all["weather"]
		of.Unguarded = true
		c.Replace(map[string]catalog.Declaration{"weather": of})
		c.Read(t.Context())
		want(t, c, description, "x")
	}
}

// TestAGoneToolLosesItsRules: the rules of a removed tool are deleted before the manifest without it is applied.
func TestAGoneToolLosesItsRules(t *testing.T) {
	t.Parallel()
	store := &memory{}
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	c.Replace(static(tool(t, "x", "one", "n"), tool(t, "y", "one", "n")))
	c.Read(t.Context())
	store.set(func() { store.stuck = true })
	c.Replace(static(tool(t, "x", "another", "n"), tool(t, "z", "one", "n")))
	for range 2 {
		want(t, c, "rules cannot be deleted", "x", "y")
		c.Read(t.Context())
	}
	if l, _ := c.Inspect("weather"); l.Pending == "" {
		t.Errorf("operators see %+v", l)
	}
	store.set(func() { store.stuck = false })
	c.Read(t.Context())
	want(t, c, "deleted", "x!", "z")
	if got := store.lost(); !slices.Equal(got, []string{"weather y"}) {
		t.Errorf("lost %q", got)
	}
	// A tool that was removed while no replica was running is detected at the next start.
	next := catalog.New(catalog.Options{Store: store, Rules: store})
	next.Replace(static(tool(t, "z", "one", "n")))
	next.Read(t.Context())
	if got := store.lost(); !slices.Equal(got, []string{"weather x", "weather y"}) {
		t.Errorf("lost %q", got)
	}
	next.Replace(static(tool(t, "z", "one", "n"), tool(t, "x", "third", "n")))
	next.Read(t.Context())
	want(t, next, "it comes back, without its rules, as one that has changed", "z", "x!")
	if got := store.lost(); len(got) != 2 {
		t.Errorf("lost %q", got)
	}
}

// TestAbsentToolsAreBounded: a capability that lists ever new tools does not evict accepted ones. At the limit, a new
// tool counts as changed.
func TestAbsentToolsAreBounded(t *testing.T) {
	t.Parallel()
	store := &memory{}
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	for round := range catalog.MaxAccepted/manifest.MaxTools + 1 {
		tools := []manifest.Tool{tool(t, fmt.Sprint("first-", round), "one", "n")}
		for i := range manifest.MaxTools - 1 {
			next := tools[0]
			next.Name = fmt.Sprintf("t-%d-%d", round, i)
			tools = append(tools, next)
		}
		c.Replace(static(tools...))
		c.Read(t.Context())
	}
	if n := len(store.of("weather").Accepted); n != catalog.MaxAccepted {
		t.Errorf("%d are remembered", n)
	}
	c.Replace(static(tool(t, "first-0", "another", "n"), tool(t, "first-1", "one", "n"), tool(t, "unseen", "one", "n")))
	c.Read(t.Context())
	want(t, c, "full", "first-0!", "first-1", "unseen!")
	unseen, _ := c.Describe("weather", "unseen")
	check.Must(t, c.Accept(t.Context(), "weather", "unseen", unseen.Hash))
	want(t, c, "accepted", "first-0!", "first-1", "unseen")
}

// TestAToolThatIsElsewhereIsNotGone: while backends are being replaced, a tool keeps its rules and its accepted hash
// until no backend has it.
func TestAToolThatIsElsewhereIsNotGone(t *testing.T) {
	t.Parallel()
	store := &memory{}
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	replace := func(elsewhere string, tools ...manifest.Tool) {
		all := static(tools...)
		of := all["weather"]
		of.ToolsElsewhere = elsewhere
		c.Replace(map[string]catalog.Declaration{"weather": of})
		c.Read(t.Context())
	}
	replace("", tool(t, "x", "one", "n"), tool(t, "y", "one", "n"))
	after := []manifest.Tool{tool(t, "x", "one", "n"), tool(t, "z", "one", "n")}
	both := static(after...)["weather"]
	both.ToolsElsewhere = "y"
	c.Replace(map[string]catalog.Declaration{"weather": both})
	c.Read(t.Context())
	want(t, c, "upgraded", "x", "z")
	replace("z", tool(t, "x", "one", "n"), tool(t, "y", "another", "n"))
	want(t, c, "and back: it has drifted, not come anew", "x", "y!")
	c.Replace(map[string]catalog.Declaration{"weather": both})
	c.Read(t.Context())
	if got := store.lost(); len(got) > 0 {
		t.Errorf("lost %q", got)
	}
	both.ToolsElsewhere = ""
	c.Replace(map[string]catalog.Declaration{"weather": both})
	want(t, c, "at once", "x", "z")
	c.Read(t.Context())
	if got := store.lost(); !slices.Equal(got, []string{"weather y"}) {
		t.Errorf("nobody has it any more; lost %q", got)
	}
}

// TestWithoutTheStore: without the store, manifests are used unchecked, and compared later.
func TestWithoutTheStore(t *testing.T) {
	t.Parallel()
	store := &memory{}
	before := catalog.New(catalog.Options{Store: store, Rules: store})
	before.Replace(static(tool(t, "x", "one", "n")))
	before.Read(t.Context())
	store.set(func() { store.unavailable = true })
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	c.Replace(static(tool(t, "x", "another", "n")))
	c.Read(t.Context())
	want(t, c, "nobody knows", "x")
	before.Replace(static(tool(t, "x", "another", "n")))
	before.Read(t.Context())
	want(t, before, "who knows goes on", "x!")
	store.set(func() { store.unavailable = false })
	c.Read(t.Context())
	want(t, c, "it is back", "x!")
}

// TestTheStoreIsEmptied: replicas restore the accepted hashes in an emptied store.
func TestTheStoreIsEmptied(t *testing.T) {
	t.Parallel()
	store := &memory{}
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	c.Replace(static(tool(t, "x", "one", "n")))
	c.Read(t.Context())
	c.Replace(static(tool(t, "x", "another", "n")))
	c.Read(t.Context())
	store.lose()
	c.Read(t.Context())
	want(t, c, "who remembers", "x!")
	fresh := catalog.New(catalog.Options{Store: store, Rules: store})
	fresh.Replace(static(tool(t, "x", "another", "n")))
	fresh.Read(t.Context())
	want(t, fresh, "who is told", "x!")
	c.Read(t.Context())
	want(t, c, "later", "x!")
	if got := store.lost(); len(got) != 0 {
		t.Errorf("lost %q", got)
	}
}

func BenchmarkTool(b *testing.B) {
	c := catalog.New(catalog.Options{})
	c.Replace(static(tool(b, "x", "one", "n")))
	b.ReportAllocs()
	for b.Loop() {
		c.Tool("weather", "x")
	}
}
