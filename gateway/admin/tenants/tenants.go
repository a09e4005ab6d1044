package tenants

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// CreateTenant implements capgatepb.TenantsServer.
func (s *server) CreateTenant(ctx context.Context,
	req *capgatepb.CreateTenantRequest) (*capgatepb.CreateTenantResponse, error) {
	t, err := s.createTenant(ctx, req.GetTenant())
	return &capgatepb.CreateTenantResponse{Tenant: t}, err
}

func (s *server) createTenant(ctx context.Context, t *capgatepb.Tenant) (*capgatepb.Tenant, error) {
	by, err := s.operator(ctx)
	if err != nil {
		return nil, err
	}
	r, err := recordOf(t, nil)
	switch {
	case err != nil:
		return nil, err
	case s.Tenants.InFile(r.ID) != nil:
		return nil, tenant.ErrTenantExists
	}
	r.UID, r.UpdatedBy = rand.Text(), by.name
	if err := s.changedTenant(ctx, "made", by, r.ID, s.Store.CreateTenant(ctx, r)); err != nil {
		return nil, err
	}
	return s.getTenant(ctx, r.ID)
}

// operator returns the principal of a request that needs an operator and a store.
func (s *server) operator(ctx context.Context) (*principal, error) {
	by, err := s.authenticate(ctx)
	if err == nil {
		err = by.requireOperator()
	}
	if err == nil && s.Store == nil {
		err = refusedOff
	}
	return &by, err
}

// GetTenant implements capgatepb.TenantsServer.
func (s *server) GetTenant(ctx context.Context, req *capgatepb.GetTenantRequest) (*capgatepb.GetTenantResponse,
	error) {
	by, err := s.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	id, err := by.tenant(req.GetTenantId())
	if err != nil {
		return nil, err
	}
	t, err := s.getTenant(ctx, id)
	return &capgatepb.GetTenantResponse{Tenant: t}, err
}

func (s *server) getTenant(ctx context.Context, id string) (*capgatepb.Tenant, error) {
	if of := s.Tenants.InFile(id); of != nil {
		return tenantInFile(of), nil
	}
	r, err := s.record(ctx, id)
	if err != nil {
		return nil, err
	}
	return tenantOf(r), nil
}

// record returns a tenant of the store.
func (s *server) record(ctx context.Context, id string) (*tenant.Record, error) {
	if s.Store == nil {
		return nil, s.unknown(ctx, id)
	}
	r, err := s.Store.FindTenant(ctx, id)
	if err == nil && r == nil {
		err = s.unknown(ctx, id)
	}
	return r, err
}

// unknown returns the refusal of an unknown tenant. For operators it suggests the closest id.
func (s *server) unknown(ctx context.Context, id string) error {
	var refusal *call.Refusal
	if s.detailed && errors.As(s.Roster.Check(ctx, id), &refusal) && refusal.Kind == call.NotFound {
		return refusal
	}
	return tenant.ErrTenantUnknown
}

// ListTenants implements capgatepb.TenantsServer.
func (s *server) ListTenants(ctx context.Context, req *capgatepb.ListTenantsRequest) (*capgatepb.ListTenantsResponse,
	error) {
	by, err := s.authenticate(ctx)
	if err == nil {
		err = by.requireOperator()
	}
	if err != nil {
		return nil, err
	}
	page, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	list := s.listTenants
	ids := by.some()
	if ids != nil {
		list = func(ctx context.Context, after string, most int) ([]*capgatepb.Tenant, string, error) {
			return s.listSome(ctx, ids, paging.Page{Size: most, After: after})
		}
	}
	if len(query) > 0 {
		list = paging.Matching(list, func(t *capgatepb.Tenant) bool { return query.Matches(t.GetId(), t.GetName()) })
	}
	all, next, err := list(ctx, page.After, page.Size)
	if err != nil {
		return nil, err
	}
	return &capgatepb.ListTenantsResponse{Tenants: all, NextPageToken: paging.Token(next),
		Creatable: s.Store != nil && ids == nil}, nil
}

// listTenants is a paging.List of all tenants.
func (s *server) listTenants(ctx context.Context, after string, most int) (all []*capgatepb.Tenant, next string,
	err error) {
	var stored []*tenant.Record
	if s.Store != nil {
		if stored, next, err = s.Store.ListTenants(ctx, after, most); err != nil {
			return nil, "", err
		}
	}
	p := merged[*capgatepb.Tenant]{after: after, upTo: next}
	for _, r := range stored {
		if s.Tenants.InFile(r.ID) == nil {
			p.all = append(p.all, tenantOf(r))
		}
	}
	for _, of := range s.Tenants.File() {
		if p.contains(of.ID) {
			p.all = append(p.all, tenantInFile(of))
		}
	}
	all, next = p.truncate(most)
	return all, next, nil
}

// listSome lists the existing tenants that an operator sees.
func (s *server) listSome(ctx context.Context, ids []string, page paging.Page) (all []*capgatepb.Tenant, next string,
	err error) {
	ids, err = s.known(ctx, ids, page.After)
	ids, next = paging.Slice(page, ids, paging.ID)
	for i := 0; i < len(ids) && err == nil; i++ {
		var t *capgatepb.Tenant
		t, err = s.getTenant(ctx, ids[i])
		all = append(all, t)
	}
	return all, next, err
}

// known returns the existing tenants among ids, after one. The roles of an operator may name tenants that do not
// exist.
func (s *server) known(ctx context.Context, ids []string, after string) (known []string, err error) {
	for _, id := range ids {
		if id <= after {
			continue
		}
		var refusal *call.Refusal
		switch err := s.Roster.Check(ctx, id); {
		case err == nil:
			known = append(known, id)
		case !errors.As(err, &refusal) || refusal.Kind != call.NotFound:
			return nil, err
		}
	}
	return known, nil
}

// maxTries is the maximum number of tries of a change without an etag.
const maxTries = 5

// UpdateTenant implements capgatepb.TenantsServer.
func (s *server) UpdateTenant(ctx context.Context,
	req *capgatepb.UpdateTenantRequest) (*capgatepb.UpdateTenantResponse, error) {
	by, err := s.operator(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		err := s.updateTenant(ctx, by, req)
		if errors.Is(err, tenant.ErrTenantChanged) && req.GetTenant().GetEtag() == "" && try < maxTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := s.getTenant(ctx, req.GetTenant().GetId())
		return &capgatepb.UpdateTenantResponse{Tenant: t}, err
	}
}

func (s *server) updateTenant(ctx context.Context, by *principal, req *capgatepb.UpdateTenantRequest) error {
	id := req.GetTenant().GetId()
	if s.Tenants.InFile(id) != nil {
		return refusedTenantInFile
	}
	before, err := s.record(ctx, id)
	if err != nil {
		return err
	}
	is := tenantOf(before)
	if etag := req.GetTenant().GetEtag(); etag != "" && etag != is.GetEtag() {
		return tenant.ErrTenantChanged
	}
	if err := applyMask(is, req); err != nil {
		return err
	}
	r, err := recordOf(is, before.Limits)
	if err != nil {
		return err
	}
	r.Version, r.UpdatedBy = before.Version, by.name
	return s.changedTenant(ctx, "changed", by, id, s.Store.UpdateTenant(ctx, r))
}

// DeleteTenant implements capgatepb.TenantsServer.
func (s *server) DeleteTenant(ctx context.Context,
	req *capgatepb.DeleteTenantRequest) (*capgatepb.DeleteTenantResponse, error) {
	by, err := s.operator(ctx)
	if err == nil && s.Tenants.InFile(req.GetTenantId()) != nil {
		err = refusedTenantInFile
	}
	var version int64
	if etag := req.GetEtag(); err == nil && etag != "" {
		if version, err = strconv.ParseInt(etag, 10, 64); err != nil || version <= 0 {
			err = tenant.ErrTenantChanged // never an etag
		}
	}
	if err == nil {
		err = s.Store.DeleteTenant(ctx, req.GetTenantId(), version, req.GetForce())
		err = s.changedTenant(ctx, "deleted", by, req.GetTenantId(), err)
	}
	return new(capgatepb.DeleteTenantResponse), err
}
