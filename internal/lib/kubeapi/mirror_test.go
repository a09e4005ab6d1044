package kubeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// slice is an EndpointSlice, as far as these tests need it.
type slice struct {
	kubeapi.Meta `json:"metadata"`
	AddressType  string `json:"addressType"`
}

const plural = "endpointslices"

func slicesIn(namespace string) kubeapi.Resource {
	return kubeapi.Resource{Group: "discovery.k8s.io", Version: "v1", Plural: plural, Namespace: namespace}
}

func object(family string) kubetest.Object { return kubetest.Object{"addressType": family} }

// follower is a Mirror that runs until the test ends.
type follower struct {
	*kubeapi.Mirror[slice]
	changed chan struct{}
	log     *logged
}

type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func client(t *testing.T, s *kubetest.Server, timeout time.Duration) *kubeapi.Client {
	c := kubeapi.New(kubeapi.Config{Address: s.URL, CAFile: s.CAFile, TokenFile: s.TokenFile, Timeout: timeout})
	t.Cleanup(c.Close)
	return c
}

func follow(t *testing.T, s *kubetest.Server, r kubeapi.Resource, o kubeapi.Options) *follower {
	t.Helper()
	return followWith(t, client(t, s, 0), r, o)
}

func followWith(t *testing.T, c *kubeapi.Client, r kubeapi.Resource, o kubeapi.Options) *follower {
	t.Helper()
	f := &follower{changed: make(chan struct{}, 1), log: &logged{}}
	o.Changed = func() {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	o.Log = slog.New(slog.NewTextHandler(f.log, nil))
	o.First, o.Max = time.Millisecond, 20*time.Millisecond
	f.Mirror = kubeapi.NewMirror(c, r, func(s *slice) *kubeapi.Meta { return &s.Meta }, o)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		check.Ended(t, &all, "the mirror")
	})
	return f
}

// has waits until the objects are as wanted, each as namespace/name family.
func (f *follower) has(t *testing.T, want ...string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("the objects %q", want), func() (bool, []string, <-chan struct{}) {
		var got []string
		for _, one := range f.Objects() {
			got = append(got, fmt.Sprintf("%s/%s %s", one.Namespace, one.Name, one.AddressType))
		}
		slices.Sort(got)
		return slices.Equal(got, want), got, f.changed
	})
}

// until waits for a condition of the mirror.
func (f *follower) until(t *testing.T, what string, is func(kubeapi.State) bool) kubeapi.State {
	t.Helper()
	check.Until(t, what, func() (bool, string) {
		s := f.State()
		return is(s), fmt.Sprintf("%+v", s)
	})
	return f.State()
}

func followed(s kubeapi.State) bool { return s.Synced && s.Since.IsZero() }

// TestObjectsAreFollowed: a list in pages, and then each change, of one namespace or of all.
func TestObjectsAreFollowed(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 7 {
		s.Put(plural, "tools", fmt.Sprint("s", i), object("IPv4"))
	}
	s.Put(plural, "other", "s", object("IPv6"))
	f := follow(t, s, slicesIn("tools"), kubeapi.Options{PageSize: 3})
	all := follow(t, s, slicesIn(""), kubeapi.Options{PageSize: 100})
	want := []string{"tools/s0 IPv4", "tools/s1 IPv4", "tools/s2 IPv4", "tools/s3 IPv4", "tools/s4 IPv4",
		"tools/s5 IPv4", "tools/s6 IPv4"}
	f.has(t, want...)
	all.has(t, append([]string{"other/s IPv6"}, want...)...)
	if n := s.Requests("list", plural); n != 4 {
		t.Errorf("%d requests for lists, want 3 pages and 1", n)
	}
	f.until(t, "an established watch", followed)
	all.until(t, "an established watch", followed)
	for i := range 6 {
		s.Delete(plural, "tools", fmt.Sprint("s", i))
	}
	s.Put(plural, "tools", "s6", object("IPv6"))
	s.Put(plural, "tools", "new", object("IPv4"))
	s.Put(plural, "other", "another", object("IPv4"))
	f.has(t, "tools/new IPv4", "tools/s6 IPv6")
	all.has(t, "other/another IPv4", "other/s IPv6", "tools/new IPv4", "tools/s6 IPv6")
	if n := s.Requests("list", plural); n != 4 {
		t.Errorf("%d requests for lists after changes", n)
	}
}

// TestSelector: the server chooses objects by their labels, and one that loses them is removed.
func TestSelector(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	labelled := func(value string) kubetest.Object {
		return kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{"tier": value}}}
	}
	s.Put(plural, "a", "in", labelled("tools"))
	s.Put(plural, "a", "out", labelled("web"))
	r := slicesIn("a")
	r.Selector = "tier=tools"
	f := follow(t, s, r, kubeapi.Options{})
	f.has(t, "a/in ")
	f.until(t, "an established watch", followed)
	s.Put(plural, "a", "in", labelled("web"))
	f.has(t)
	s.Put(plural, "a", "out", labelled("tools"))
	f.has(t, "a/out ")
}

// TestWatchGoesOn from its last version after it has ended, and after it was cut, without a new list.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", object("IPv4"))
	f := follow(t, s, slicesIn("a"), kubeapi.Options{Watch: time.Second})
	f.has(t, "a/one IPv4")
	f.until(t, "an established watch", followed)
	for i := range 3 {
		s.Cut()
		s.Put(plural, "a", fmt.Sprint("two", i), object("IPv4"))
		f.has(t, append([]string{"a/one IPv4"}, []string{"a/two0 IPv4", "a/two1 IPv4", "a/two2 IPv4"}[:i+1]...)...)
	}
	before := s.Requests("watch", plural)
	check.Until(t, "a second watch after the end of one", func() (bool, string) {
		n := s.Requests("watch", plural)
		return n > before, fmt.Sprint(n)
	})
	if n := s.Requests("list", plural); n != 1 {
		t.Errorf("%d lists, want 1", n)
	}
}

// TestExpiredVersion: after 410 Gone, as a status and as an event, the objects are listed again, and objects that were
// deleted in the meantime are removed. A bookmark keeps a version from expiring.
func TestExpiredVersion(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]kubetest.Expiry{"status": kubetest.AsStatus, "event": kubetest.AsEvent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t)
			s.Put(plural, "a", "gone", object("IPv4"))
			s.Put(plural, "a", "stays", object("IPv4"))
			f := follow(t, s, slicesIn("a"), kubeapi.Options{})
			f.has(t, "a/gone IPv4", "a/stays IPv4")
			f.until(t, "an established watch", followed)
			s.Away(true)
			s.Delete(plural, "a", "gone")
			s.Expire(how)
			s.Away(false)
			f.has(t, "a/stays IPv4")
			f.until(t, "an established watch", followed)
			if n := f.State().Lists; n != 2 {
				t.Errorf("%d lists, want 2", n)
			}
			s.Put(plural, "a", "new", object("IPv4"))
			f.has(t, "a/new IPv4", "a/stays IPv4")

			// The versions before the bookmark expire, but the watch goes on from it.
			s.Bookmark()
			s.Expire(how)
			s.Bookmark()
			s.Put(plural, "a", "newer", object("IPv4"))
			f.has(t, "a/new IPv4", "a/newer IPv4", "a/stays IPv4")
			failures := f.State().Failures
			s.Cut()
			s.Put(plural, "a", "newest", object("IPv4"))
			f.has(t, "a/new IPv4", "a/newer IPv4", "a/newest IPv4", "a/stays IPv4")
			// The object may have arrived before the cut.
			f.until(t, "another watch", func(s kubeapi.State) bool { return s.Failures > failures && followed(s) })
			if n := f.State().Lists; n != 2 {
				t.Errorf("%d lists after a bookmark, want 2", n)
			}

			// An expired version is no failure; the cut is one.
			failures = f.State().Failures
			s.Expire(how)
			s.Cut()
			f.until(t, "a third list", func(s kubeapi.State) bool { return s.Lists == 3 && followed(s) })
			if n := f.State().Failures - failures; n != 1 {
				t.Errorf("%d failures, want 1", n)
			}
		})
	}
}

// TestBookmark: a watch that only had a bookmark goes on from it, although all versions before have expired.
func TestBookmark(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", object("IPv4"))
	f := follow(t, s, slicesIn("a"), kubeapi.Options{})
	f.until(t, "an established watch", followed)
	s.Expire(kubetest.AsStatus)
	s.Bookmark()
	before := s.Requests("watch", plural)
	s.EndWatches()
	check.Until(t, "a watch after the end of the first", func() (bool, string) {
		n := s.Requests("watch", plural)
		return n > before, fmt.Sprint(n)
	})
	s.Put(plural, "a", "two", object("IPv4"))
	f.has(t, "a/one IPv4", "a/two IPv4")
	if n := f.State().Lists; n != 1 {
		t.Errorf("%d lists, want 1", n)
	}
}

// TestExpiredPages: if the rest of a list expires, all objects are listed in one page.
func TestExpiredPages(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 5 {
		s.Put(plural, "a", fmt.Sprint("s", i), object("IPv4"))
	}
	s.ExpireAfterPage()
	f := follow(t, s, slicesIn("a"), kubeapi.Options{PageSize: 2})
	f.has(t, "a/s0 IPv4", "a/s1 IPv4", "a/s2 IPv4", "a/s3 IPv4", "a/s4 IPv4")
	if n := s.Requests("list", plural); n != 3 {
		t.Errorf("%d requests, want a page, an expired one, and all", n)
	}
}

// TestExpiredPagesOfLargeObjects: objects that do not fit into one page are listed in pages again.
func TestExpiredPagesOfLargeObjects(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 5 {
		large := object("IPv4")
		large["padding"] = strings.Repeat("x", 4<<20)
		s.Put(plural, "a", fmt.Sprint("s", i), large)
	}
	s.ExpireAfterPage()
	f := follow(t, s, slicesIn("a"), kubeapi.Options{PageSize: 2})
	f.has(t, "a/s0 IPv4", "a/s1 IPv4", "a/s2 IPv4", "a/s3 IPv4", "a/s4 IPv4")
	if n := f.State().Failures; n != 0 {
		t.Errorf("%d failures", n)
	}
}

// TestObjectsStayWhileTheServerIsAway, and the state says since when.
func TestObjectsStayWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", object("IPv4"))
	f := follow(t, s, slicesIn("a"), kubeapi.Options{})
	f.until(t, "an established watch", followed)
	s.Away(true)
	state := f.until(t, "a dozen failures", func(s kubeapi.State) bool { return s.Failures >= 12 })
	if state.Since.IsZero() || state.Err == nil || state.Objects != 1 {
		t.Errorf("%+v", state)
	}
	f.has(t, "a/one IPv4")
	s.Put(plural, "a", "two", object("IPv4"))
	s.Away(false)
	f.has(t, "a/one IPv4", "a/two IPv4")
	f.until(t, "an established watch", followed)
	if n := strings.Count(f.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, f.log)
	}
}
