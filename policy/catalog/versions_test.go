package catalog_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/catalog"
)

// versions holds the stored versions of a capability's tools.
type versions struct {
	mu    sync.Mutex
	all   map[string]catalog.Version
	loads chan struct{} // optional; holds a value while versions are loaded
}

func (v *versions) Save(_ context.Context, _ string, some map[string]catalog.Version) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.Copy(v.all, some)
	return nil
}

func (v *versions) Load(context.Context, string, []string) (map[string]catalog.Version, error) {
	if v.loads != nil {
		v.loads <- struct{}{}
		defer func() { <-v.loads }()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.all), nil
}

// TestVersionsOfADriftedTool: operators compare a drifted tool with its accepted version, however long ago that was
// accepted, and with the new version once it is accepted.
func TestVersionsOfADriftedTool(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store, kept := &memory{}, &versions{all: map[string]catalog.Version{}}
		c := catalog.New(catalog.Options{Store: store, Rules: store})
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { c.KeepVersions(ctx, kept) })
		for _, description := range []string{"one", "another", "a third"} {
			c.Replace(static(tool(t, "x", description, "n")))
			c.Read(t.Context())
			<-time.After(time.Minute)
			if description == "one" {
				continue
			}
			if got := c.AcceptedVersions(t.Context(), kept, "weather")["x"].Description; got != "one" {
				t.Errorf("the accepted version of %q is %q", description, got)
			}
			want := "it has changed since its version was accepted:\ndescription:\n+ " + description + "\n- one"
			if got := c.Change("weather", "x"); got != want {
				t.Errorf("the change to %q: %q", description, got)
			}
		}
		changed, _ := c.Describe("weather", "x")
		if err := c.Accept(t.Context(), "weather", "x", changed.Hash); err != nil {
			t.Error(err)
		}
		if got := c.Change("weather", "x"); got != "" {
			t.Errorf("an accepted tool: %q", got)
		}
		<-time.After(time.Minute)
		c.Replace(static(tool(t, "x", "one", "n")))
		c.Read(t.Context())
		if got := c.AcceptedVersions(t.Context(), kept, "weather")["x"].Description; got != "a third" {
			t.Errorf("after its acceptance: %q", got)
		}
		stop()
		keeping.Wait()
	})
}

// TestChangesAreOfTheVersionsAsTheyAre: the change of a newer version is unknown until it has been computed, as is the
// change from a stored version that is not the accepted one.
func TestChangesAreOfTheVersionsAsTheyAre(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store, kept := &memory{}, &versions{all: map[string]catalog.Version{}, loads: make(chan struct{}, 1)}
		c := catalog.New(catalog.Options{Store: store, Rules: store})
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { c.KeepVersions(ctx, kept) })
		changes := func(description, want string) {
			t.Helper()
			c.Replace(static(tool(t, "x", description, "n")))
			c.Read(t.Context())
			<-time.After(time.Minute)
			if got := c.Change("weather", "x"); got != want {
				t.Errorf("the change to %q: %q, want %q", description, got, want)
			}
		}
		const from = "it has changed since its version was accepted"
		changes("one", "")
		changes("another", from+":\ndescription:\n+ another\n- one")
		kept.loads <- struct{}{} // the stored versions are not loaded yet
		changes("a third", from+"; what has changed is not known here")
		<-kept.loads
		changes("a third", from+":\ndescription:\n+ a third\n- one")
		if err := kept.Save(ctx, "weather", map[string]catalog.Version{
			"x": {Description: "a harmless one", Schema: kept.all["x"].Schema}}); err != nil {
			t.Error(err)
		}
		changes("a fourth", from+"; what has changed is not known here")
		stop()
		keeping.Wait()
	})
}
