package kubeapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// configMaps selects the ConfigMaps with a name in all namespaces.
func configMaps(name string) kubeapi.Resource {
	return kubeapi.Resource{Version: "v1", Plural: kubetest.ConfigMaps, Object: name}
}

// large is a text of which sixteen exceed a page.
var large = strings.Repeat("x", 1<<20+1)

// TestLargePages: a page that is too large is requested in smaller parts, also after each other one.
func TestLargePages(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	var want []string
	for i := range 17 {
		name := fmt.Sprintf("s%02d", i)
		s.Put(plural, "a", name, kubetest.Object{"addressType": "IPv4", "unused": large})
		want = append(want, "a/"+name+" IPv4")
	}
	f := follow(t, s, slicesIn("a"), kubeapi.Options{PageSize: 50})
	f.has(t, want...)
	if state := f.until(t, "an established watch", followed); state.Failures != 0 || state.Lists != 1 {
		t.Errorf("%+v", state)
	}
	if n := s.Requests("list", plural); n != 4 { // of 50 and 25 objects, and twice of 12
		t.Errorf("%d requests", n)
	}
}

// TestObjectBeyondAPage is an error, and others stay.
func TestObjectBeyondAPage(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(plural, "a", "one", kubetest.Object{"unused": strings.Repeat(large, 16)})
	f := follow(t, s, slicesIn("a"), kubeapi.Options{PageSize: 2})
	f.until(t, "a failure", func(s kubeapi.State) bool {
		return s.Err != nil && strings.Contains(s.Err.Error(), "a page is larger than 16777216 bytes")
	})
}

// TestMetadata: a mirror of metadata receives nothing else, in lists and in watches. Find reads one whole object.
func TestMetadata(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 40 {
		s.Put(kubetest.ConfigMaps, fmt.Sprintf("n%02d", i), "texts", kubetest.ConfigMap("k", large))
	}
	s.Put(kubetest.ConfigMaps, "n00", "another", kubetest.ConfigMap("k", "x"))
	f := follow(t, s, configMaps("texts"), kubeapi.Options{Metadata: true})
	f.until(t, "an established watch", followed)
	if n := s.Requests("list", kubetest.ConfigMaps); n != 1 {
		t.Errorf("%d requests for 40 MiB, of which none is requested", n)
	}
	s.Put(kubetest.ConfigMaps, "n40", "texts", kubetest.Object{"metadata": kubetest.Object{},
		"addressType": "IPv4"}) // as a ConfigMap has data
	check.UntilEvent(t, "41 objects", func() (bool, int, <-chan struct{}) {
		n := f.State().Objects
		return n == 41, n, f.changed
	})
	if slices.ContainsFunc(f.Objects(), func(one slice) bool { return one.AddressType != "" }) {
		t.Error("an event has more than metadata")
	}
	one := configMaps("texts")
	one.Namespace = "n40"
	got, err := kubeapi.Find[slice](check.Context(t), client(t, s, 0), one, "1")
	if err != nil || got == nil || got.AddressType != "IPv4" || got.ResourceVersion == "" {
		t.Errorf("%+v, %v", got, err)
	}
	one.Namespace = "n41"
	if got, err = kubeapi.Find[slice](check.Context(t), client(t, s, 0), one, "1"); got != nil || err != nil {
		t.Errorf("%+v, %v, want none", got, err)
	}
}
