package kubernetes

import (
	"context"
	"fmt"
	"testing"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// BenchmarkGather: 500 targets with 5,000 slices and 50,000 endpoints. A slice of one target has changed, or all.
func BenchmarkGather(b *testing.B) {
	s := kubetest.Start(b)
	var settings Settings
	for i := range 500 {
		service := fmt.Sprintf("service-%03d", i)
		settings.Targets = append(settings.Targets, Target{Capability: service, Weight: defaultWeight,
			Source: Source{Namespace: "tools", Service: service}})
		for j := range 10 {
			var endpoints []kubetest.Endpoint
			for k := range 10 {
				endpoints = append(endpoints, kubetest.Endpoint{Zone: "zone",
					Addr: fmt.Sprintf("10.%d.%d.%d", i/256, i%256, j*10+k), Pod: fmt.Sprint("pod-", i, "-", j, "-", k)})
			}
			s.Put(kubetest.EndpointSlices, "tools", fmt.Sprint(service, "-", j),
				kubetest.Slice(service, 1, endpoints...))
		}
	}
	c := kubeapi.New(kubeapi.Config{Address: s.URL, CAFile: s.CAFile, TokenFile: s.TokenFile})
	defer c.Close()
	d := New(c, settings, Options{Mirrors: kubeapi.Options{PageSize: 5000}})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx)
	}()
	check.Must(b, d.Await(ctx))
	stop()
	<-ended
	if n := len(d.Members()); n != 50_000 {
		b.Fatalf("%d members", n)
	}
	one := settings.Targets[250].foundKey()
	for name, forget := range map[string]func(){
		"one": func() { delete(d.found, one) },
		"all": func() { d.found = nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				forget()
				d.gather()
			}
		})
	}
}
