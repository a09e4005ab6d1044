package redisstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/stored"
	tenanttest "github.com/capgate/capgate/internal/tenant/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolset"
)

// toolsetsOf returns a replica's toolsets, and a channel that gets one after each change.
func toolsetsOf(s *redisstore.Store) (*toolset.Manager, <-chan struct{}) {
	changed := make(chan struct{}, 100)
	return toolset.NewManager(s.Stored(toolset.Kind), func(text []byte) (*toolset.Toolset, error) {
		var of toolset.Toolset
		return &of, json.Unmarshal(text, &of)
	}, func() { changed <- struct{}{} }, slog.New(slog.DiscardHandler)), changed
}

// support returns a toolset of a tenant with one tool.
func support(tenant, uid, tool string) *stored.Record {
	return &stored.Record{Tenant: tenant, UID: uid, Name: "support", By: "ann",
		Text: []byte(`{"tools":[{"capability":"mail","tool":"` + tool + `"}]}`)}
}

// has reports whether callers of a tenant have a tool in the toolset support.
func has(m *toolset.Manager, tenant, uid, tool string) bool {
	set := m.Sets().Find("support", toolset.Caller{Tenant: tenant, UID: uid})
	return set.Entry("mail", tool) != nil
}

// TestToolsets: a replica learns of the toolsets of others, each is for its tenant alone, and a change names the state
// that it changes. A later tenant of the same name has none of them.
func TestToolsets(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, stop := context.WithCancel(t.Context())
		here, _ := toolsetsOf(open())
		there, changed := toolsetsOf(open())
		ended := make(chan struct{})
		go func() { there.Run(ctx); close(ended) }()
		defer func() { stop(); <-ended }()
		known := func(what string, is func() bool) {
			t.Helper()
			for !is() {
				check.Received(t, changed, what)
			}
		}
		check.Must(t, here.Write(ctx, support("acme", "u1", "send"), ""))
		check.Must(t, here.Write(ctx, support("", "", "read"), ""))
		known("two toolsets", func() bool {
			return has(there, "acme", "u1", "send") && has(there, "other", "", "read")
		})
		if !has(here, "acme", "u1", "send") || has(there, "acme", "u2", "send") || has(there, "other", "", "send") {
			t.Error("a toolset is not known where it was set, or is for another tenant")
		}
		r := here.Sets().Find("support", toolset.Caller{Tenant: "acme", UID: "u1"}).Record()
		if r.By != "ann" || r.Updated.IsZero() {
			t.Errorf("got %+v", r)
		}
		check.Must(t, here.Write(ctx, support("acme", "u1", "list"), r.Etag))
		if err := here.Write(ctx, support("acme", "u1", "drop"), r.Etag); !errors.Is(err, stored.ErrChanged) {
			t.Errorf("an outdated change: %v", err)
		}
		known("the change", func() bool { return has(there, "acme", "u1", "list") })
		err := here.Write(ctx, &stored.Record{Tenant: "acme", Name: "none"}, "")
		if !errors.Is(err, stored.ErrUnknown) {
			t.Errorf("deleted an unknown toolset: %v", err)
		}
		check.Must(t, here.Write(ctx, &stored.Record{Name: "support"}, ""))
		known("the end", func() bool { return !has(there, "other", "", "read") })

		tenants := open().Tenants()
		check.Must(t, tenants.CreateTenant(ctx, tenanttest.Record("acme", "u1")))
		check.Must(t, tenants.DeleteTenant(ctx, "acme", 0, false))
		known("the end of the tenant", func() bool { return len(there.Sets().All()) == 0 })
		check.Must(t, here.Write(ctx, support("", "", "read"), "")) // a key for keys.md
	})
}

// TestToolsetsAreBounded: a tenant has a number of toolsets, and an amount of bytes, whatever others have.
func TestToolsetsAreBounded(t *testing.T) {
	t.Parallel()
	m, _ := toolsetsOf(open(t, redisstore.Config{}))
	write := func(tenant, name, more string) error {
		r := support(tenant, "", "send"+more)
		r.Name = name
		return m.Write(t.Context(), r, "")
	}
	for n := range toolset.Kind.TenantObjects {
		check.Must(t, write("acme", fmt.Sprint("set-", n), ""))
	}
	if err := write("acme", "more", ""); !errors.Is(err, stored.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	check.Must(t, write("acme", "set-0", "er"))
	check.Must(t, write("acme-2", "more", ""))
	large := strings.Repeat("x", toolset.MaxText)
	var err error
	for n := 0; n < toolset.Kind.TenantBytes/toolset.MaxText+1 && err == nil; n++ {
		err = write("globex", fmt.Sprint("set-", n), large)
	}
	if !errors.Is(err, stored.ErrFull) {
		t.Errorf("large ones: %v", err)
	}
}

// TestToolsetsAreErasedByMany: the end of a tenant deletes all its toolsets, also while others delete some of them.
func TestToolsetsAreErasedByMany(t *testing.T) {
	t.Parallel()
	all := open(t, redisstore.Config{}).Stored(toolset.Kind)
	for n := range toolset.Kind.TenantObjects {
		r := support("acme", "u", "send")
		r.Name = fmt.Sprint("set-", n)
		check.Must(t, all.Write(t.Context(), r, ""))
	}
	const many = 8
	errs := make(chan error, many)
	for range many {
		go func() { errs <- all.Erase(t.Context(), "acme") }()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if left, err := all.Changed(t.Context(), changefeed.Position{}); err != nil || len(left.Records) > 0 {
		t.Errorf("%d toolsets are left: %v", len(left.Records), err)
	}
}

// TestStoredKindsAreListed: a kind that is not in the list has no store, because its objects would outlive tenants.
func TestStoredKindsAreListed(t *testing.T) {
	t.Parallel()
	s := open(t, redisstore.Config{})
	defer func() {
		if recover() == nil {
			t.Error("objects of a kind that is not listed have a store")
		}
	}()
	s.Stored(stored.Kind{Name: "banner", Names: "banners"})
}
