package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
)

// turns are readings of ConfigMaps that all change after each reading.
type turns struct {
	*reader
	all    []kubeapi.Key
	failed map[kubeapi.Key]bool
	order  []string
}

func newTurns(all ...string) *turns {
	x := &turns{failed: map[kubeapi.Key]bool{}}
	x.reader = newReader(nil, &Options{ReadManifest: func(string) (registry.Document, *call.Refusal) {
		return ofC{}, nil
	}}, func() {})
	x.pause = noPause
	x.wait = backoff.Backoff{First: time.Hour, Max: time.Hour}
	x.fetch = func(_ context.Context, of kubeapi.Key, version string) (*configMap, error) {
		x.order = append(x.order, of.Namespace+"/"+of.Name)
		if x.failed[of] {
			return nil, errors.New("broken")
		}
		// The ConfigMap has changed again.
		return &configMap{kubeapi.Meta{ResourceVersion: version + " or later"}, map[string]string{"k": version}}, nil
	}
	for _, one := range all {
		namespace, name, _ := strings.Cut(one, "/")
		x.all = append(x.all, kubeapi.Key{Namespace: namespace, Name: name})
	}
	return x
}

// after returns the next n readings.
func (x *turns) after(t *testing.T, n int) (order []string) {
	t.Helper()
	x.order = nil
	for i := range n {
		needed := needs{}
		for _, of := range x.all {
			needed.add(textKey{of, "k"}, fmt.Sprint(time.Now(), i))
		}
		x.want(needed)
		of, wait := x.next(time.Now())
		if wait > 0 {
			break
		}
		x.read(t.Context(), of)
	}
	return x.order
}

// TestNamespacesTakeTurns: one that changes many ConfigMaps gets as many readings as each other one. So do the
// ConfigMaps of a namespace. One that cannot be read waits, and delays none.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	x := newTurns("a/1", "a/2", "a/3", "b/1", "c/1")
	want := []string{"a/1", "b/1", "c/1", "a/2", "b/1", "c/1", "a/3", "b/1", "c/1"}
	for round := range 2 {
		if got := x.after(t, len(want)); !slices.Equal(got, want) {
			t.Errorf("round %d: %v", round, got)
		}
	}
	x.failed[x.all[3]], x.failed[x.all[0]] = true, true
	if got, want := x.after(t, 7), []string{"a/1", "b/1", "c/1", "a/2", "c/1", "a/3", "c/1"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if _, _, err := x.last(textKey{x.all[3], "k"}); err == nil || err.Error() != "broken" {
		t.Error(err)
	}
}

// TestReaderIsIdle: a text is read once for each version, and only while Services need it.
func TestReaderIsIdle(t *testing.T) {
	t.Parallel()
	x := newTurns("a/1")
	needed := func(version string, fits bool) int {
		x.order = nil
		for range 3 {
			n := needs{}
			n.add(textKey{x.all[0], "k"}, version)
			n[x.all[0]].keys["k"] = fits
			_, _, _ = x.last(textKey{x.all[0], "k"})
			x.want(n)
			if of, wait := x.next(time.Now()); wait == 0 {
				x.read(t.Context(), of)
			}
		}
		return len(x.order)
	}
	for i, test := range []struct {
		version string
		fits    bool
		want    int
	}{{"1", true, 1}, {"1", true, 0}, {"2", true, 1}, {"2", false, 0}, {"2", true, 1}, {"3", false, 1},
		{"3", false, 0}} {
		if got := needed(test.version, test.fits); got != test.want {
			t.Errorf("step %d: %d readings, want %d", i, got, test.want)
		}
	}
	x.want(needs{})
	if _, wait := x.next(time.Now()); wait == 0 || len(x.readings)+len(x.attempts)+len(x.served) != 0 {
		t.Errorf("%v, %v, %v", x.readings, x.attempts, x.served)
	}
}

// TestNamespaceThatReturns: one that drops its needs and has them again takes its turn behind the others.
func TestNamespaceThatReturns(t *testing.T) {
	t.Parallel()
	x := newTurns("a/1", "b/1")
	counts := map[string]int{}
	for range 10 {
		for _, one := range x.after(t, 1) {
			counts[one]++
		}
		all := x.all
		x.all = all[1:]
		x.after(t, 0)
		n := needs{}
		n.add(textKey{all[1], "k"}, fmt.Sprint(time.Now()))
		x.want(n)
		x.all = all
	}
	if counts["a/1"] != 5 || counts["b/1"] != 5 {
		t.Errorf("%v", counts)
	}
}

// TestChangingConfigMapPauses: one that changes all the time is read for a fifth of the time, also if its Service
// drops it for a moment. Others are not delayed.
func TestChangingConfigMapPauses(t *testing.T) {
	t.Parallel()
	pause := newReader(nil, &Options{}, func() {}).pause
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 2 * time.Second: 8 * time.Second,
		time.Hour: time.Minute} {
		if got := pause(took); got != want {
			t.Errorf("%v after %v, want %v", got, took, want)
		}
	}
	x := newTurns("a/1", "b/1", "c/1")
	x.pause = func(time.Duration) time.Duration { return time.Hour }
	order := x.after(t, 3)
	x.want(needs{})
	if got := append(order, x.after(t, 3)...); !slices.Equal(got, []string{"a/1", "b/1", "c/1"}) {
		t.Errorf("%v", got)
	}
}

// TestReaderEndsBetweenKeys: a reader that must end parses no other key of the ConfigMap.
func TestReaderEndsBetweenKeys(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	parsed := 0
	x := newTurns("a/1")
	x.parse = func(string) (registry.Document, *call.Refusal) {
		parsed++
		cancel()
		return ofC{}, nil
	}
	x.fetch = func(context.Context, kubeapi.Key, string) (*configMap, error) {
		return &configMap{Data: map[string]string{"k": "k", "l": "l", "m": "m"}}, nil
	}
	n := needs{}
	for _, key := range []string{"k", "l", "m"} {
		n.add(textKey{x.all[0], key}, "1")
	}
	x.want(n)
	x.read(ctx, x.all[0])
	if parsed != 1 {
		t.Errorf("%d keys were parsed", parsed)
	}
}

// TestDocumentReadMeanwhile: a document that is read while needs are computed, which do not know it yet, is not lost.
// It is once needs know it, and have no room for it.
func TestDocumentReadMeanwhile(t *testing.T) {
	t.Parallel()
	x := newTurns("a/1")
	text := textKey{x.all[0], "k"}
	needed := func() needs {
		n := needs{}
		n.add(text, "1")
		return n
	}
	x.want(needed())
	later := needed()
	if _, known, _ := x.last(text); known {
		t.Error("the text was not read yet")
	}
	x.read(t.Context(), x.all[0])
	x.want(later)
	if one, _, _ := x.last(text); one.document == nil {
		t.Error("the document is lost")
	}
	x.want(needed())
	if one, _, _ := x.last(text); one.document != nil {
		t.Error("a document without room is held")
	}
}
