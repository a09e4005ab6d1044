package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// All is the name that operators use for all tenants (AIP-159). No tenant has this id.
const All = "-"

const (
	// rosterNames is the maximum number of tenants that are searched for the one that a request meant.
	rosterNames = 500
	// rosterShown is the maximum number of those that an error names.
	rosterShown = 10
)

// IDs lists the tenants of a store.
type IDs interface {
	TenantIDs(ctx context.Context, after string, most int) (ids []string, next string, err error)
}

// Roster lists the tenants of a gateway for operators. A nil Roster is that of a gateway without tenants, in
// which every call and rule is Default's.
type Roster struct {
	Directory *Directory // required
	Store     IDs        // nil: all tenants are in the configuration
}

// Page returns a page of tenant ids, and the position of the next page. A position of "" is the beginning, and
// as a result the end. A page may be short.
func (r *Roster) Page(ctx context.Context, after string, most int) (ids []string, next string, err error) {
	if r == nil {
		if after < Default {
			ids = []string{Default}
		}
		return ids, "", nil
	}
	if r.Store != nil {
		if ids, next, err = r.Store.TenantIDs(ctx, after, most); err != nil {
			return nil, "", err
		}
	}
	for _, of := range r.Directory.File() {
		if of.ID > after && (next == "" || of.ID <= next) {
			ids = append(ids, of.ID)
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > most {
		ids = ids[:most]
		next = ids[most-1]
	}
	return ids, next, nil
}

// Read returns the tenant that a read request names, or "" for all of them if it names none or All. Errors are
// *call.Refusal.
func (r *Roster) Read(ctx context.Context, name string) (id string, err error) {
	switch {
	case r == nil && (name == "" || name == All):
		return Default, nil
	case r == nil:
		return name, nil
	case name == "" || name == All:
		return "", nil
	}
	return name, r.Check(ctx, name)
}

// Named returns the tenant of a request that has to name one. It does not check that the tenant exists. The
// error is a *call.Refusal.
func (r *Roster) Named(ctx context.Context, name string) (id string, err error) {
	switch {
	case r == nil && (name == "" || name == All):
		return Default, nil
	case r == nil || name != "" && name != All:
		return name, nil
	}
	return "", &call.Refusal{Kind: call.InvalidArgument, Reason: "TENANT_REQUIRED",
		Metadata: map[string]string{"field": "tenant"},
		Message:  "tenant: name one with --tenant NAME or tenant=NAME; this gateway has " + r.some(ctx)}
}

// Check returns an error if there is no tenant of this name. The error is a *call.Refusal.
func (r *Roster) Check(ctx context.Context, name string) error {
	_, err := r.Settings(ctx, name)
	return err
}

// Settings returns the settings of a tenant; nil without tenants. The error is a *call.Refusal.
func (r *Roster) Settings(ctx context.Context, name string) (*Settings, error) {
	if r == nil {
		if name == Default {
			return nil, nil
		}
		return nil, &call.Refusal{Kind: call.NotFound, Reason: "TENANT_UNKNOWN",
			Metadata: map[string]string{"tenant": clip(name)},
			Message: fmt.Sprintf("there is no tenant %q: this gateway has no tenants, and every call is "+
				"the tenant %s's", clip(name), Default)}
	}
	of, refusal := r.Directory.Settings(ctx, name)
	switch {
	case refusal != nil:
		return nil, refusal
	case of != nil:
		return of, nil
	}
	names, _, _ := r.Page(ctx, "", rosterNames) // without names the error is less helpful
	return nil, &call.Refusal{Kind: call.NotFound, Reason: "TENANT_UNKNOWN",
		Metadata: map[string]string{"tenant": clip(name)},
		Message: fmt.Sprintf("there is no tenant %q%s; this gateway has %s", clip(name), nearest.Hint(name, names),
			r.some(ctx))}
}

// Existing returns a function that reports whether a tenant exists. A store may still have something of one that has
// left the configuration, or whose name is that of another one now. If a tenant cannot be read, all exist.
func (r *Roster) Existing(ctx context.Context) func(id, uid string) bool {
	uids, failed := map[string]*string{}, false // nil means that there is no such tenant
	return func(id, uid string) bool {
		own, read := uids[id]
		if !read && !failed {
			of, err := r.Settings(ctx, id)
			var refusal *call.Refusal
			switch {
			case err == nil && of == nil: // Default
				own = new("")
			case err == nil:
				own = new(of.UID())
			default:
				failed = !errors.As(err, &refusal) || refusal.Kind != call.NotFound
			}
			uids[id] = own
		}
		return failed || own != nil && *own == uid
	}
}

// some names the first tenants, and tells how to list all.
func (r *Roster) some(ctx context.Context) string {
	ids, next, err := r.Page(ctx, "", rosterShown)
	switch {
	case err != nil || len(ids) == 0:
		return "no tenants that could be listed; capgate tenants list, or GET /v1/tenants, has them"
	case next == "":
		return "the tenants " + nearest.List(ids, rosterShown)
	}
	return "the tenants " + nearest.List(ids, rosterShown) +
		" and more; capgate tenants list, or GET /v1/tenants, has all"
}

func clip(name string) string { return untrusted.Cut(name, 64) }
