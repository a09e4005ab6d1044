// Package storetest has the tests that every registry.Leases passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests.
func Suite() contract.Suite[registry.Leases] {
	return contract.Suite[registry.Leases]{
		"registrations are shared":   testShared,
		"the last one has the lease": testSuperseded,
		"leases end":                 testEnd,
		"changes are notified":       testWatch,
		"manifests are shared":       testManifests,
		"manifests are bounded":      testManifestsBounded,
	}
}

// Registration returns a registration in which every field but the manifest has a value.
func Registration(addr, lease string) *registry.Registration {
	return &registry.Registration{
		Capability: "weather", Addr: addr, Pinned: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:1"),
			netip.MustParseAddrPort("[2001:db8::7]:1")},
		Weight: 5, Zone: "a", Session: "s 1", Tenant: "acme", Dialect: call.Live, MaxConcurrent: 8, TTL: time.Hour,
		Lease: lease,
	}
}

// WithManifest returns a Registration with a manifest.
func WithManifest(addr, lease, text string) *registry.Registration {
	g := Registration(addr, lease)
	g.Manifest = registry.NewManifest(text)
	return g
}

// Read reads, and sorts the registrations by address.
func Read(t *testing.T, l registry.Leases, since string) registry.Reading {
	t.Helper()
	got, err := l.Read(t.Context(), since)
	check.Must(t, err)
	slices.SortFunc(got.Live, func(a, b registry.Registration) int { return strings.Compare(a.Addr, b.Addr) })
	return got
}

// Manifests returns the stored texts, separated by bars; a text that is not stored is "".
func Manifests(t *testing.T, l registry.Leases, texts ...string) string {
	t.Helper()
	var all []string
	for _, text := range texts {
		got, err := l.Manifest(t.Context(), registry.NewManifest(text).Sum)
		check.Must(t, err)
		all = append(all, got)
	}
	return strings.Join(all, "|")
}

func register(t *testing.T, l registry.Leases, g *registry.Registration, renew bool) {
	t.Helper()
	check.Must(t, l.Register(t.Context(), g, renew, 9))
}

func testShared(t *testing.T, open func() registry.Leases) {
	a, b := open(), open()
	if got := Read(t, a, ""); got.Unchanged || len(got.Live)+len(got.Ended) > 0 {
		t.Errorf("at first: %+v", got)
	}
	first, second := Registration("10.0.0.7:1", "l1"), Registration("weather-0.svc:1", "l2")
	second.Session, second.Tenant, second.Dialect, second.Weight = "", "", call.Auto, 0
	for _, g := range []*registry.Registration{first, second} {
		check.Must(t, a.Register(t.Context(), g, false, 2))
	}
	if err := a.Register(t.Context(), Registration("10.0.0.9:1", "l3"), false, 2); !errors.Is(err, registry.ErrFull) {
		t.Error(err)
	}
	got := Read(t, b, "")
	if want := []registry.Registration{*first, *second}; !reflect.DeepEqual(got.Live, want) {
		t.Errorf("got  %+v\nwant %+v", got.Live, want)
	}

	// Renewals are no change; any difference is one.
	check.Must(t, b.Register(t.Context(), first, true, 2))
	if again := Read(t, a, got.Version); !again.Unchanged || again.Version != got.Version {
		t.Errorf("after a renewal: %+v", again)
	}
	first.Weight = 7
	check.Must(t, b.Register(t.Context(), first, true, 2))
	if again := Read(t, a, got.Version); again.Unchanged || again.Live[0].Weight != 7 {
		t.Errorf("after a change: %+v", again)
	}
}

func testSuperseded(t *testing.T, open func() registry.Leases) {
	a, b := open(), open()
	first, second := Registration("10.0.0.7:1", "l1"), Registration("weather-0.svc:1", "l2")
	register(t, a, first, false)
	register(t, a, second, false)
	register(t, b, Registration("10.0.0.7:1", "l4"), false)
	if err := a.Register(t.Context(), first, true, 2); !errors.Is(err, registry.ErrSuperseded) {
		t.Error(err)
	}
	if _, err := a.Withdraw(t.Context(), first.Key(), "l1"); !errors.Is(err, registry.ErrSuperseded) {
		t.Error(err)
	}
	if ok, err := a.Withdraw(t.Context(), first.Key(), "l4"); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := a.Withdraw(t.Context(), second.Key(), ""); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := b.Withdraw(t.Context(), first.Key(), ""); ok || err != nil {
		t.Error(ok, err)
	}
	got := Read(t, b, "")
	if len(got.Live) > 0 || !slices.Contains(got.Ended, first.Key()) || !slices.Contains(got.Ended, second.Key()) {
		t.Errorf("after all have gone: %+v", got)
	}
	// A backend can register again after its lease ended.
	register(t, a, first, true)
	if got = Read(t, b, ""); len(got.Live) != 1 || slices.Contains(got.Ended, first.Key()) {
		t.Errorf("after one came back: %+v", got)
	}
}

func testEnd(t *testing.T, open func() registry.Leases) {
	l := open()
	short, long := Registration("10.0.0.7:1", "l1"), Registration("10.0.0.8:1", "l2")
	short.TTL = time.Millisecond
	register(t, l, long, false)
	version := Read(t, l, "").Version
	register(t, l, short, false)
	var got registry.Reading
	check.Until(t, "the end of a lease", func() (bool, string) {
		got = Read(t, l, version)
		version = got.Version
		return slices.Contains(got.Ended, short.Key()), fmt.Sprintf("%+v", got)
	})
	if len(got.Live) != 1 || got.Live[0].Addr != long.Addr {
		t.Errorf("%+v", got)
	}
}

func testWatch(t *testing.T, open func() registry.Leases) {
	a, b := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	notices, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		b.Watch(ctx, func() { notices <- struct{}{} })
	}()
	check.Received(t, notices, "the subscription")
	register(t, a, Registration("10.0.0.7:1", "l1"), false)
	check.Received(t, notices, "the registration")
	_, err := a.Withdraw(t.Context(), registry.Key{Capability: "weather", Addr: "10.0.0.7:1"}, "")
	check.Must(t, err)
	check.Received(t, notices, "the withdrawal")
	cancel()
	check.Received(t, ended, "the end of the watch")
}

func testManifests(t *testing.T, open func() registry.Leases) {
	a, b := open(), open()
	const one, two = "id: weather\nimage: \"one\"\n", "id: weather\nimage: {\"manifest\":\"00\"}\x00\n"
	register(t, a, WithManifest("10.0.0.7:1", "l1", one), true)
	register(t, a, WithManifest("10.0.0.8:1", "l2", one), true)
	register(t, a, WithManifest("10.0.0.9:1", "l3", two), true)
	got := Read(t, b, "")
	for i, text := range []string{one, one, two} {
		if want := registry.NewManifest(text).Sum; got.Live[i].Manifest != (registry.Manifest{Sum: want}) {
			t.Errorf("%d: %+v", i, got.Live[i].Manifest)
		}
	}
	if got := Manifests(t, b, one, two, "none"); got != one+"|"+two+"|" {
		t.Errorf("%q", got)
	}

	// A renewal is no change; another manifest is one, and so is none.
	register(t, a, WithManifest("10.0.0.8:1", "l2", one), true)
	if again := Read(t, b, got.Version); !again.Unchanged {
		t.Errorf("after a renewal: %+v", again)
	}
	register(t, a, WithManifest("10.0.0.8:1", "l2", two), true)
	changed := Read(t, b, got.Version)
	if changed.Unchanged || changed.Live[1].Manifest.Sum != registry.NewManifest(two).Sum {
		t.Errorf("%+v", changed)
	}
	if got := Manifests(t, b, one, two); got != one+"|"+two {
		t.Errorf("%q", got)
	}
	register(t, a, Registration("10.0.0.7:1", "l1"), true)
	if now := Read(t, b, changed.Version); now.Unchanged || now.Live[0].Manifest != (registry.Manifest{}) {
		t.Errorf("%+v", now)
	}

	// A registration without the text of its manifest fails unless the text is stored.
	without := WithManifest("10.0.0.9:1", "l3", two)
	without.Manifest.Text = ""
	register(t, a, without, true)
	without.Manifest = registry.NewManifest("never stored")
	without.Manifest.Text = ""
	if err := a.Register(t.Context(), without, true, 9); err == nil {
		t.Error("a registration without its manifest succeeded")
	}
}

// testManifestsBounded: the size of all texts is bounded, and those that no lease names do not count.
func testManifestsBounded(t *testing.T, open func() registry.Leases) {
	l := open()
	const quarter = registry.MaxManifests / 4
	for i, addr := range []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"} {
		register(t, l, WithManifest(addr, "l", strings.Repeat(string(rune('a'+i)), quarter)), false)
	}
	more := WithManifest("10.0.0.5:1", "l", "more")
	if err := l.Register(t.Context(), more, false, 9); !errors.Is(err, registry.ErrManifests) {
		t.Error(err)
	}
	register(t, l, WithManifest("10.0.0.5:1", "l", strings.Repeat("a", quarter)), false) // which is stored
	register(t, l, Registration("10.0.0.2:1", "l"), true)
	register(t, l, WithManifest("10.0.0.2:1", "l", "more"), true) // as there is room again
	if got := Manifests(t, l, "more", strings.Repeat("b", quarter)); got != "more|" {
		t.Errorf("%.100q", got)
	}
}
