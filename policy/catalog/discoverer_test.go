package catalog_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/policy/catalog"
)

// TestAReplicaStarts: it discovers tools unless another replica has just done so, as the backends may have changed
// while all replicas were stopped.
func TestAReplicaStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		var asked atomic.Int64
		author := catalog.Declaration{
			Manifest: &manifest.Manifest{
				ID: "weather", Dynamic: true, DiscoveryTool: "list_tools",
			}, Interval: time.Hour, Timeout: time.Second,
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		start := func() *catalog.Discoverer {
			c := catalog.New(catalog.Options{Store: store, Rules: store})
			c.Replace(map[string]catalog.Declaration{"weather": author})
			c.Read(ctx)
			d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) ([]byte, error) {
				asked.Add(1)
				return []byte(`[]`), nil
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
		for range 10 { // as many as there are, one discovery is now, and one later
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
		for range 8 { // some are looked at at once, the others together
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

// TestAManifestBecomesDynamic: the fleet is healthy already, without another event.
func TestAManifestBecomesDynamic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := catalog.New(catalog.Options{})
		c.Replace(map[string]catalog.Declaration{"weather": {}})
		d := catalog.NewDiscoverer(c, func(context.Context, catalog.DiscoveryCall) ([]byte, error) {
			asked.Add(1)
			return []byte(`[]`), nil
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
