package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/fleetplan"
	"github.com/capgate/capgate/internal/registry/sources"
	"github.com/capgate/capgate/internal/settings"
)

// connectsAtOnce bounds the backends that are probed at one time.
const connectsAtOnce = 32

// Connected is the result of one probe of each backend.
type Connected struct {
	Backends, Ready int
	Problems        []error // backends that do not serve their fleets
	Warnings        []string
}

// Connect probes each backend of a configuration once, as the gateway does.
func Connect(ctx context.Context, s *settings.Settings) (c Connected) {
	others := protocols.Open(upstream.Options{})
	defer others.Close()
	members, problems := sources.Once(ctx, sourceSettings(s.Config), sources.Options{ReadManifest: readManifest})
	c.Problems = problems
	next := (&fleetplan.Planner{Others: others}).Plan(s, members)
	others.Set(next.Served)
	for i := range next.Probes {
		f := &next.Probes[i]
		results := make([]health.Result, len(f.Backends))
		permits := make(chan struct{}, connectsAtOnce)
		var probing sync.WaitGroup
		for j, addr := range f.Backends {
			permits <- struct{}{}
			probing.Go(func() {
				results[j] = health.Once(ctx, f, addr)
				<-permits
			})
		}
		probing.Wait()
		c.Backends += len(results)
		for j := range results {
			r := &results[j]
			text := fmt.Sprintf("fleet %s: backend %s: %s", f.Capability, f.Backends[j], container.Clean(r.Reason))
			switch {
			case !r.OK:
				c.Problems = append(c.Problems, errors.New(text))
				continue
			case r.Incomplete():
				c.Warnings = append(c.Warnings, text)
			}
			c.Ready++
		}
	}
	return c
}
