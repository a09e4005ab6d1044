package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/registry"
)

// connectsAtOnce bounds the backends that are probed at one time.
const connectsAtOnce = 32

// connect probes each backend of a configuration once, as the gateway does. The problems are the backends that do not
// serve their fleets.
func connect(ctx context.Context, file string, s *settings, warnings io.Writer) (ok string, problems []error) {
	others := &upstreams{mcp: mcp.New(mcp.Options{}), grpc: grpcservice.New(grpcservice.Options{})}
	defer others.close()
	members, problems := membersOfNames(ctx, file, s)
	next := (&planner{ejected: newEjections(), others: others}).plan(s, members)
	others.set(next)
	good, all := 0, 0
	for i := range next.probes {
		f := &next.probes[i]
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
		all += len(results)
		for j := range results {
			r := &results[j]
			text := fmt.Sprintf("fleet %s: backend %s: %s", f.Capability, f.Backends[j], container.Clean(r.Reason))
			switch {
			case !r.OK:
				problems = append(problems, fmt.Errorf("%s: %s", file, text))
				continue
			case r.Incomplete():
				fmt.Fprintf(warnings, "%s: warning: %s\n", file, text)
			}
			good++
		}
	}
	return fmt.Sprintf("%d of %s ready", good, count(all, "backend")), problems
}

// membersOfNames looks up the DNS names of a configuration.
func membersOfNames(ctx context.Context, file string, s *settings) (all []registry.Member, problems []error) {
	resolver := registry.NewResolver(s.cfg.DNS.Server)
	for _, target := range registrySettings(s.cfg).Targets {
		found, err := registry.Lookup(ctx, resolver, target)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: fleet %s: %s: %w", file, target.Capability, target.Name, err))
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b registry.Member) int { return strings.Compare(a.Capability, b.Capability) })
	return all, problems
}
