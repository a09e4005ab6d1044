package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// TestRejectedReloadKeepsPods: a rejected reload with other namespaces loses no pod, also if the API server is away.
func TestRejectedReloadKeepsPods(t *testing.T) {
	t.Parallel()
	api := kubetest.Start(t)
	api.Put(kubetest.EndpointSlices, "tools", "s", kubetest.Slice("s", 1, kubetest.Endpoint{Addr: "10.0.0.1"}))
	in := func(namespace string) string {
		return fmt.Sprintf("kubernetes: {api: {address: '%s', ca_file: %s, token_file: %s}}\n"+
			"fleets: [{capability: one, kubernetes: {namespace: %s, service: s}}]\n", api.URL, api.CAFile,
			api.TokenFile, namespace)
	}
	r := newReloadRig(t, in("tools"))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, s := range r.fleets.sources {
		running.Go(func() { s.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		check.Ended(t, &running, "the sources")
	})
	check.Must(t, r.fleets.sources.Await(check.Context(t)))
	r.features = append(r.features, feature{prepare: func(*App, *change) error {
		api.Away(true)
		return errors.New("no room")
	}})
	r.write(in("other"))
	r.fleets.reloader.load("test")
	if m := r.fleets.sources.Members(); len(m) != 1 || r.fleets.sourceOf("one", m[0].Addr) != "kubernetes" ||
		r.fleets.sourceOf("one", "10.0.0.2:1") != "config" {
		t.Errorf("%+v", m)
	}
}
