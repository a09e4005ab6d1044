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

// TestAnnouncedTargetsAreBounded, with a problem that says so. A namespace with many leaves places for others, and none
// loses its place to another.
func TestAnnouncedTargetsAreBounded(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 1002 {
		s.Put(kubetest.Services, "own", fmt.Sprintf("s-%04d", i), kubetest.Service(nil, "capgate.dev/capability=c"))
		if i >= 998 {
			s.Put(plural, "own", fmt.Sprintf("s-%04d", i), kubetest.Slice(fmt.Sprintf("s-%04d", i), i,
				kubetest.Endpoint{Addr: "10.0.0.1"}))
		}
	}
	r := run(t, s, kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true,
		Namespaces: []string{"own", "another"}}})
	r.has(t, "c 10.0.0.1:998 100 s-0998.own.svc", "c 10.0.0.1:999 100 s-0999.own.svc")
	const problem = "namespace own: 2 Services announce capabilities beyond its share of 1000, and are left out: " +
		"s-1000, s-1001; narrow kubernetes.watch"
	if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, problem) {
		t.Error(text)
	}
	if n := metrictest.Read(t, r)["capgate_kubernetes_refused_services"]; n != 2 {
		t.Errorf("%v refused", n)
	}

	for i := range 300 {
		s.Put(kubetest.Services, "another", fmt.Sprintf("s-%03d", i), kubetest.Service(nil, "capgate.dev/capability=c"))
	}
	s.Put(plural, "another", "a", kubetest.Slice("s-000", 7, kubetest.Endpoint{Addr: "10.0.0.2"}))
	r.has(t, "c 10.0.0.1:998 100 s-0998.own.svc", "c 10.0.0.1:999 100 s-0999.own.svc",
		"c 10.0.0.2:7 100 s-000.another.svc")
	check.Until(t, "a share for another namespace", func() (bool, string) {
		text := strings.Join(r.Warnings(), "\n")
		return strings.Contains(text, problem) && strings.Contains(text, "another: 100 Services announce capabilities "+
			"beyond its share of 200"), text
	})

	s.Delete(kubetest.Services, "own", "s-0999") // its namespace has more than its share now, and gets no other place
	s.Put(plural, "another", "b", kubetest.Slice("s-200", 8, kubetest.Endpoint{Addr: "10.0.0.2"}))
	s.Delete(kubetest.Services, "another", "s-001")
	r.has(t, "c 10.0.0.1:998 100 s-0998.own.svc", "c 10.0.0.2:7 100 s-000.another.svc",
		"c 10.0.0.2:8 100 s-200.another.svc")
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
