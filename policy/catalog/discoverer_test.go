package catalog_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/catalog"
)

// TestAReplicaStarts: a replica that starts discovers tools unless another replica has just done so, because the
// backends may have changed while all replicas were stopped.
func TestAReplicaStarts(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &memory{}
		var asked atomic.Int64
		author := catalog.Declaration{
			Manifest: &manifest.Manifest{
				ID: "weather", Dynamic: true, DiscoveryTool: "list_tools",
			}, Discovery: catalog.Discovery{Interval: time.Hour, Timeout: time.Second},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		start := func() *catalog.Discoverer {
			c := catalog.New(catalog.Options{Store: store, Rules: store})
			c.Replace(map[string]catalog.Declaration{"weather": author})
			c.Read(ctx)
			d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) (catalog.Answer, error) {
				asked.Add(1)
				return catalog.Answer{Tools: []byte(`[]`)}, nil
			})
			running.Go(func() { c.Run(ctx) })
			running.Go(func() { d.Run(ctx) })
			d.Healthy("weather", true)
			<-time.After(5 * time.Second)
			return d
		}
		for i, step := range []struct {
			after time.Duration
			asked int64
		}{{0, 1}, {0, 1}, {0, 1}, {time.Minute, 2}, {0, 2}} {
			<-time.After(step.after)
			if start(); asked.Load() != step.asked {
				t.Errorf("replica %d: asked %d times, want %d", i, asked.Load(), step.asked)
			}
		}
		<-time.After(65 * time.Minute)
		if asked.Load() != 3 {
			t.Errorf("after an interval: asked %d times", asked.Load())
		}
		d := start()
		before := asked.Load()
		<-time.After(time.Minute)
		d.Healthy("weather", false)
		d.Healthy("weather", true)
		<-time.After(time.Second)
		if asked.Load() != before+1 {
			t.Errorf("it became healthy again: asked %d times more", asked.Load()-before)
		}
		before = asked.Load()
		for range 10 { // one discovery now for all of them, and one later
			d.Changed("weather")
		}
		d.Healthy("weather", false)
		d.Healthy("weather", true)
		<-time.After(time.Second)
		if asked.Load() != before+1 {
			t.Errorf("its tools changed: asked %d times more", asked.Load()-before)
		}
		d.Changed("weather")
		<-time.After(10 * time.Second)
		if asked.Load() != before+2 {
			t.Errorf("its tools changed again: asked %d times more", asked.Load()-before)
		}
		<-time.After(time.Minute)
		before = asked.Load()
		for range 8 { // some are noticed at once, the others together
			d.Changed("weather")
			<-time.After(100 * time.Millisecond)
		}
		if asked.Load() != before+5 {
			t.Errorf("its tools change often: asked %d times more", asked.Load()-before)
		}
		<-time.After(10 * time.Second)
		if asked.Load() != before+6 {
			t.Errorf("its tools changed often: asked %d times more", asked.Load()-before)
		}
		cancel()
		running.Wait()
	})
}

// discovering runs the discoveries of the tools of weather by a function, in a bubble of synctest, until test returns.
func discovering(t *testing.T, call func() []byte, test func(*catalog.Discoverer)) {
	t.Helper()
	c := catalog.New(catalog.Options{})
	c.Replace(map[string]catalog.Declaration{"weather": dynamic()})
	d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) (catalog.Answer, error) {
		return catalog.Answer{Tools: call()}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	d.Healthy("weather", true)
	test(d)
	cancel()
	running.Wait()
}

// dynamic returns a capability whose tools are discovered every hour.
func dynamic() catalog.Declaration {
	return catalog.Declaration{Manifest: &manifest.Manifest{ID: "weather", Dynamic: true, DiscoveryTool: "list_tools"},
		Discovery: catalog.Discovery{Interval: time.Hour}}
}

// TestAChangeDuringADiscovery: a change during a discovery starts another one, because the result may not include it.
func TestAChangeDuringADiscovery(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		answer := make(chan struct{})
		discovering(t, func() []byte {
			asked.Add(1)
			<-answer
			return []byte(`[]`)
		}, func(d *catalog.Discoverer) {
			synctest.Wait()
			d.Changed("weather")
			close(answer)
			<-time.After(10 * time.Second)
			if n := asked.Load(); n != 2 {
				t.Errorf("asked %d times", n)
			}
		})
	})
}

// TestEndlessChanges: a server that keeps announcing changes of its tools does not postpone their discovery.
func TestEndlessChanges(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		discovering(t, func() []byte {
			asked.Add(1)
			return []byte(`[]`)
		}, func(d *catalog.Discoverer) {
			for range 60 * 1000 / 7 {
				d.Changed("weather")
				<-time.After(7 * time.Millisecond)
			}
			if n := asked.Load(); n < 15 || n > 20 {
				t.Errorf("asked %d times in a minute", n)
			}
		})
	})
}

// TestADiscoveryThatPanics: a discovery that panics is repeated after a while.
func TestADiscoveryThatPanics(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		discovering(t, func() []byte {
			if asked.Add(1) == 1 {
				panic("a bug")
			}
			return []byte(`[]`)
		}, func(*catalog.Discoverer) {
			<-time.After(time.Minute)
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times in a minute", n)
			}
			<-time.After(10 * time.Minute)
			if n := asked.Load(); n != 2 {
				t.Errorf("asked %d times", n)
			}
		})
	})
}

// TestAManifestDuringADiscovery: the result of a discovery for an earlier manifest changes nothing, and deletes no
// rules.
func TestAManifestDuringADiscovery(t *testing.T) {
	t.Parallel()
	store := &memory{}
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	c.Replace(map[string]catalog.Declaration{"weather": dynamic()})
	c.Read(t.Context())
	d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) (catalog.Answer, error) {
		c.Replace(static(tool(t, "x", "one", "n")))
		c.Read(t.Context())
		return catalog.Answer{Tools: []byte(`[]`)}, nil
	})
	if err := d.Discover(t.Context(), "weather"); err == nil {
		t.Error("the discovery of the former manifest succeeds")
	}
	want(t, c, "the tools of the manifest", "x")
	if got := store.lost(); len(got) > 0 {
		t.Errorf("lost %q", got)
	}
}

// TestADiscoveryWithoutTheStore: new tools are added, and a removed tool stays, because its rules cannot be deleted.
func TestADiscoveryWithoutTheStore(t *testing.T) {
	t.Parallel()
	store, answer := &memory{}, ""
	c := catalog.New(catalog.Options{Store: store, Rules: store})
	c.Replace(map[string]catalog.Declaration{"weather": dynamic()})
	c.Read(t.Context())
	d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) (catalog.Answer, error) {
		return catalog.Answer{Tools: []byte(answer)}, nil
	})
	const x, y = `{"name":"x","description":"one","input_schema":{}}`,
		`{"name":"y","description":"one","input_schema":{}}`
	for _, step := range []struct {
		answer      string
		unavailable bool
		taken       bool
		want        []string
	}{
		{"[" + x + "]", false, true, []string{"x"}},
		{"[" + x + "," + y + "]", true, true, []string{"x", "y"}},
		{"[" + y + "]", true, false, []string{"x", "y"}},
		{"[" + y + "]", false, true, []string{"y"}},
	} {
		answer = step.answer
		store.set(func() { store.unavailable = step.unavailable })
		if err := d.Discover(t.Context(), "weather"); (err == nil) != step.taken {
			t.Errorf("%s: %v", step.answer, err)
		}
		want(t, c, step.answer, step.want...)
	}
	if got := store.lost(); !slices.Equal(got, []string{"weather x"}) {
		t.Errorf("lost %q", got)
	}
}

// TestAManifestBecomesDynamic: a manifest that becomes dynamic starts a discovery although the fleet is already
// healthy.
func TestAManifestBecomesDynamic(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		c := catalog.New(catalog.Options{})
		c.Replace(map[string]catalog.Declaration{"weather": {}})
		d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) (catalog.Answer, error) {
			asked.Add(1)
			return catalog.Answer{Tools: []byte(`[]`)}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		d.Healthy("weather", true)
		<-time.After(5 * time.Second)
		c.Replace(map[string]catalog.Declaration{
			"weather": {Manifest: &manifest.Manifest{ID: "weather", Dynamic: true, DiscoveryTool: "list_tools"}},
		})
		<-time.After(5 * time.Second)
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
		cancel()
		running.Wait()
	})
}
