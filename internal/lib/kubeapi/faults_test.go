package kubeapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// TestErrorsSayWhatToDo about a role without a verb, a token that is not accepted, and a resource that is not there.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(*testing.T, *kubetest.Server, *kubeapi.Resource)
		want  string
	}{
		"role": {func(_ *testing.T, s *kubetest.Server, _ *kubeapi.Resource) { s.Deny("list", plural, true) },
			"list endpointslices.discovery.k8s.io in namespace a: 403 Forbidden: endpointslices.discovery.k8s.io is " +
				`forbidden: User "system:serviceaccount:capgate:capgate" cannot list resource "endpointslices" in ` +
				`API group "discovery.k8s.io" in the namespace "a"; give the service account a role with the ` +
				"verbs list and watch for it"},
		"token": {func(t *testing.T, s *kubetest.Server, _ *kubeapi.Resource) { s.Forget() },
			"401 Unauthorized: Unauthorized; check that the token is one of this cluster and has not expired"},
		"resource": {func(_ *testing.T, _ *kubetest.Server, r *kubeapi.Resource) { r.Version = "v7" },
			"404 Not Found: the server could not find the requested resource; check that the API server has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kubetest.Start(t)
			r := slicesIn("a")
			test.spoil(t, s, &r)
			f := follow(t, s, r, kubeapi.Options{})
			check.Received(t, f.Listed(), "the first attempt")
			state := f.until(t, "a failure", func(s kubeapi.State) bool { return s.Failures > 0 })
			if state.Err == nil || !strings.Contains(state.Err.Error(), test.want) || state.Synced {
				t.Errorf("%v, want %s", state.Err, test.want)
			}
			if strings.Contains(f.log.String(), "first-token") {
				t.Error("the log has the token")
			}
		})
	}
}

// TestDeniedWatch: a role that loses watch is an error, and objects stay; when it has the verb again, all goes on.
func TestDeniedWatch(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", object("IPv4"))
	f := follow(t, s, slicesIn("a"), kubeapi.Options{})
	f.until(t, "an established watch", followed)
	s.Deny("watch", plural, true)
	f.until(t, "a refused watch", func(s kubeapi.State) bool {
		return s.Err != nil && strings.Contains(s.Err.Error(),
			"watch endpointslices.discovery.k8s.io in namespace a: 403")
	})
	f.has(t, "a/one IPv4")
	f.until(t, "a list after watches that failed", func(s kubeapi.State) bool { return s.Lists >= 2 })
	s.Deny("watch", plural, false)
	f.until(t, "an established watch", followed)
}

// TestTokensRotate: each request has the token of the file, and the authorities of theirs.
func TestTokensRotate(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	f := follow(t, s, slicesIn("a"), kubeapi.Options{})
	f.until(t, "an established watch", followed)
	s.Rotate(t, "second-token")
	s.Cut()
	s.Put(plural, "a", "one", object("IPv4"))
	f.has(t, "a/one IPv4")
	s.Reissue(t) // a new authority and certificate
	s.Put(plural, "a", "two", object("IPv4"))
	f.has(t, "a/one IPv4", "a/two IPv4")
}

// TestSlowServer: a response that does not begin in time is a failure, of a list and of a watch.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", object("IPv4"))
	f := followWith(t, client(t, s, 300*time.Millisecond), slicesIn("a"), kubeapi.Options{})
	f.until(t, "an established watch", followed)
	s.Slow(time.Hour)
	s.Cut()
	f.until(t, "failures", func(s kubeapi.State) bool { return s.Failures >= 6 })
	f.has(t, "a/one IPv4")
	s.Slow(10 * time.Millisecond)
	s.Cut()
	f.until(t, "an established watch", followed)
}

// TestBounds: more objects than a mirror may have change nothing.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", object("IPv4"))
	f := follow(t, s, slicesIn("a"), kubeapi.Options{MaxObjects: 2})
	f.until(t, "an established watch", followed)
	s.Put(plural, "a", "two", object("IPv4"))
	s.Put(plural, "a", "three", object("IPv4"))
	f.until(t, "a failure", func(s kubeapi.State) bool {
		return s.Err != nil && strings.Contains(s.Err.Error(), "more than 2 objects; watch fewer namespaces")
	})
	f.has(t, "a/one IPv4", "a/two IPv4")
	s.Delete(plural, "a", "one")
	f.has(t, "a/three IPv4", "a/two IPv4")
	f.until(t, "an established watch", followed)
}

// TestResync lists again after a while, although the watch works.
func TestResync(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	f := follow(t, s, slicesIn("a"), kubeapi.Options{Watch: time.Second, Resync: time.Millisecond})
	f.until(t, "three lists", func(s kubeapi.State) bool { return s.Lists >= 3 })
	if f.State().Failures > 0 {
		t.Errorf("%+v", f.State())
	}
}
