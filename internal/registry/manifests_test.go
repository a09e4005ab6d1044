package registry_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// readManifest accepts texts like "weather: anything" as manifests of weather.
func readManifest(text string) (string, *call.Refusal) {
	capability, _, ok := strings.Cut(text, ": ")
	if !ok {
		return "", &call.Refusal{Kind: call.InvalidArgument, Reason: "MANIFEST_INVALID"}
	}
	return capability, nil
}

// trusting returns a replica that accepts manifests, until the test changes that.
func trusting(t *testing.T, leases registry.Leases) (w *runningRegistry, trust func(bool)) {
	t.Helper()
	settings := registry.Settings{Rules: rules()}
	settings.Rules.Manifests = true
	w = runWith(t, leases, settings, registry.Options{Poll: time.Second, Manifest: readManifest})
	w.settle(t)
	return w, func(on bool) {
		settings.Rules.Manifests = on
		w.Set(settings)
	}
}

func brings(addr, text string) registry.Registration {
	g := weather(addr)
	g.Manifest = registry.NewManifest(text)
	return g
}

// brought returns the manifests that members have sent, sorted by their addresses, once all replicas are idle.
func (w *runningRegistry) brought(t *testing.T) string {
	t.Helper()
	<-time.After(3 * time.Second) // of the bubble's clock: some polls
	synctest.Wait()
	var all []string
	for _, m := range w.Members() {
		all = append(all, w.Manifest(m.Manifest))
	}
	return strings.Join(all, ", ")
}

func TestManifestsAreShared(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := newMemory()
		a, trust := trusting(t, store)
		b, _ := trusting(t, store)
		both := func(when, want string) {
			t.Helper()
			for name, w := range map[string]*runningRegistry{"the one that took it": a, "another": b} {
				if got := w.brought(t); got != want {
					t.Errorf("%s, %s: %q, want %q", when, name, got, want)
				}
			}
		}
		g := register(t, a, brings("10.0.0.7:1", "weather: 1"))
		register(t, a, weather("10.0.0.8:1"))
		both("brought", "weather: 1, ")
		renewed := brings("10.0.0.7:1", "weather: 2")
		renewed.Lease = g.Lease
		register(t, a, renewed)
		both("renewed with another", "weather: 2, ")

		store.hush(true)
		both("the store is silent", "weather: 2, ")
		store.hush(false)
		store.lose()
		both("the store has lost everything", "weather: 2, ")
		register(t, a, renewed)
		if text, err := store.Manifest(t.Context(), renewed.Manifest.Sum); text != "weather: 2" || err != nil {
			t.Errorf("after a renewal the store has %q, %v", text, err)
		}

		trust(false)
		if got := a.brought(t); got != ", " {
			t.Errorf("not trusted any more: %q", got)
		}
		register(t, a, renewed) // its backend stays
		trust(true)
		register(t, a, renewed)
		both("trusted again", "weather: 2, ")
		if err := b.Withdraw(t.Context(), g.Key(), ""); err != nil {
			t.Error(err)
		}
		both("withdrawn", "")
		if text := a.Manifest(renewed.Manifest.Sum); text != "" {
			t.Errorf("%q is kept, which nobody brings", text)
		}
	})
}

func TestManifestsRefused(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w, trust := trusting(t, newMemory())
		register(t, w, brings("10.0.0.7:1", "weather: 1"))
		gen := brings("10.0.0.7:1", "weather: 1") // which is known
		gen.Capability = "gen-1"
		for _, test := range []struct {
			g    registry.Registration
			want string
		}{
			{gen, "MANIFEST_INVALID"},
			{brings("10.0.0.8:1", "climate: 1"), "MANIFEST_INVALID"},
			{brings("10.0.0.8:1", "nonsense"), "MANIFEST_INVALID"},
		} {
			if _, err := w.Register(t.Context(), test.g); reason(t, err) != test.want {
				t.Errorf("%v: %v", test.g, err)
			}
		}
		trust(false)
		if _, err := w.Register(t.Context(), brings("10.0.0.8:1", "weather: 1")); reason(t,
			err) != "MANIFEST_FORBIDDEN" || !strings.Contains(err.Error(), "registration.manifests") {
			t.Error(err)
		}
		w.sees(t, seven)
	})
}

// The store is not trusted with more than a caller.
func TestManifestsOfTheStoreAreLookedAt(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := newMemory()
		w, _ := trusting(t, store)
		for addr, text := range map[string]string{
			"10.0.0.1:1": "nonsense", "10.0.0.2:1": "climate: 1", "10.0.0.3:1": "weather: forged",
			"10.0.0.4:1": "weather: good", "10.0.0.5:1": "weather: lost",
		} {
			g := register(t, w, weather(addr))
			g.Manifest = registry.NewManifest(text)
			switch text {
			case "weather: forged":
				store.keep(g.Manifest.Sum, "weather: other")
			case "weather: lost":
			default:
				store.keep(g.Manifest.Sum, text)
			}
			g.Manifest.Text = ""
			store.put(g)
		}
		if got := w.brought(t); got != ", , , weather: good, " {
			t.Errorf("%q", got)
		}
		store.keep(registry.NewManifest("weather: lost").Sum, "weather: lost")
		if got := w.brought(t); got != ", , , weather: good, weather: lost" {
			t.Errorf("once it is back: %q", got)
		}
	})
}

func TestParseSum(t *testing.T) {
	t.Parallel()
	sum := registry.NewManifest("x").Sum
	if got, ok := registry.ParseSum(sum.String()); got != sum || !ok {
		t.Error(got, ok)
	}
	for _, text := range []string{
		"", "00", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 66),
		strings.ToUpper(sum.String()),
		strings.Repeat("x", 64),
	} {
		if got, ok := registry.ParseSum(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	if registry.NewManifest("") != (registry.Manifest{}) {
		t.Error("no text is a manifest")
	}
}
