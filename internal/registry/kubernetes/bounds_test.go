package kubernetes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
	"github.com/capgate/capgate/internal/testkit/metrictest"
)

// TestProblemsAreBounded: neither the log nor the warnings grow with the Services that others write.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 100 {
		s.Put(kubetest.Services, "own", fmt.Sprintf("bad-%03d", i), kubetest.Service(nil,
			"capgate.dev/capability=weather", "capgate.dev/weight="+strings.Repeat("9", 1000)))
	}
	r := run(t, s, kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true}})
	all := r.Warnings()
	if len(all) != 11 || !strings.HasSuffix(all[10], "and 90 more problems") {
		t.Errorf("%d warnings: %q", len(all), all)
	}
	for i := range 50 { // each is a new problem
		s.Put(kubetest.Services, "own", "bad-000", kubetest.Service(nil, "capgate.dev/capability=weather",
			fmt.Sprint("capgate.dev/weight=x", i)))
		check.Until(t, fmt.Sprint("problem ", i), func() (bool, string) {
			got := r.Warnings()[0]
			return strings.Contains(got, fmt.Sprintf(`"x%d"`, i)), got
		})
	}
	log := r.log.String()
	if n := strings.Count(log, "\n"); n > 25 || len(log) > 25*600 {
		t.Errorf("%d lines, %d bytes of log", n, len(log))
	}
}

// TestAnnouncedTargetsAreBounded, with a problem that says so. Namespaces share the places, and the oldest Services of
// each get them.
func TestAnnouncedTargetsAreBounded(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 1252 {
		name := fmt.Sprintf("s-%04d", i)
		s.Put(kubetest.Services, "own", name, kubetest.Service(nil, "capgate.dev/capability=c"))
		if i == 949 || i == 950 || i >= 1249 {
			s.Put(plural, "own", name, kubetest.Slice(name, i, kubetest.Endpoint{Addr: "10.0.0.1"}))
		}
	}
	r := run(t, s, kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true,
		Namespaces: []string{"own", "another"}}})
	r.has(t, "c 10.0.0.1:1249 100 s-1249.own.svc", "c 10.0.0.1:949 100 s-0949.own.svc",
		"c 10.0.0.1:950 100 s-0950.own.svc")
	const problem = "namespace own: 2 Services announce capabilities beyond its share of 1250, and are left out: " +
		"s-1250, s-1251; narrow kubernetes.watch"
	if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, problem) {
		t.Error(text)
	}
	if n := metrictest.Read(t, r)["capgate_kubernetes_refused_services"]; n != 2 {
		t.Errorf("%v refused", n)
	}

	old := kubetest.Service(nil, "capgate.dev/capability=c")
	old["metadata"].(kubetest.Object)["creationTimestamp"] = "2025-12-31T23:59:59Z"
	s.Put(kubetest.Services, "own", "s-1251", old)
	r.has(t, "c 10.0.0.1:1251 100 s-1251.own.svc", "c 10.0.0.1:949 100 s-0949.own.svc",
		"c 10.0.0.1:950 100 s-0950.own.svc")

	for i := range 300 {
		s.Put(kubetest.Services, "another", fmt.Sprintf("s-%03d", i), kubetest.Service(nil, "capgate.dev/capability=c"))
	}
	s.Put(plural, "another", "a", kubetest.Slice("s-299", 7, kubetest.Endpoint{Addr: "10.0.0.2"}))
	want := []string{"c 10.0.0.1:1251 100 s-1251.own.svc", "c 10.0.0.2:7 100 s-299.another.svc"}
	r.has(t, want...)
	const share = "namespace own: 302 Services announce capabilities beyond its share of 950, and are left out: s-0949"
	again := run(t, s, kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true,
		Namespaces: []string{"own", "another"}}}) // agrees
	again.has(t, want...)
	for _, one := range []*running{r, again} {
		check.Until(t, share, func() (bool, string) {
			text := strings.Join(one.Warnings(), "\n")
			return strings.Contains(text, share) && !strings.Contains(text, "namespace another"), text
		})
	}
}

// TestPanicEndsOnePublication, and not the process.
func TestPanicEndsOnePublication(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	var panics atomic.Int64
	changed := make(chan struct{}, 100)
	c := kubeapi.New(kubeapi.Config{Address: s.URL, CAFile: s.CAFile, TokenFile: s.TokenFile})
	d := kubernetes.New(c, of(target("w", "weather", "")), kubernetes.Options{Changed: func() {
		changed <- struct{}{}
		if panics.Add(1) == 1 {
			panic("a bug")
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		check.Ended(t, &running, "the discovery")
		c.Close()
	})
	check.Must(t, d.Await(check.Context(t)))
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		s.Put(plural, "tools", "s", kubetest.Slice("weather", 1, kubetest.Endpoint{Addr: addr}))
		check.UntilEvent(t, addr, func() (bool, []string, <-chan struct{}) {
			got := describe(d.Members())
			return len(got) == 1 && strings.Contains(got[0], addr), got, changed
		})
	}
}
