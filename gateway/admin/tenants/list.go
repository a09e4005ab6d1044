package tenants

import (
	"context"
	"slices"

	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// ListKeys implements capgatepb.TenantsServer.
func (s *server) ListKeys(ctx context.Context, req *capgatepb.ListKeysRequest) (*capgatepb.ListKeysResponse, error) {
	by, err := s.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	page, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	everyone := by.operator && req.GetTenantId() == tenant.All
	if everyone && s.Roster == nil { // the gateway has no tenants
		return &capgatepb.ListKeysResponse{}, nil
	}
	list := func(ctx context.Context, after string, most int) ([]*capgatepb.Key, string, error) {
		return s.listKeys(ctx, req.GetTenantId(), after, most)
	}
	if everyone && len(by.some()) != 1 {
		all := paging.Across[*capgatepb.Key]{Owners: s.Roster.Page, List: s.listKeys}
		if ids := by.some(); ids != nil {
			all.Owners = func(ctx context.Context, after string, _ int) ([]string, string, error) {
				ids, err := s.known(ctx, ids, after)
				return ids, "", err
			}
		}
		list = all.Page
	}
	if len(query) > 0 {
		list = paging.Matching(list, func(k *capgatepb.Key) bool {
			return query.Matches(k.GetId(), k.GetName(), k.GetTenant(), k.GetState())
		})
	}
	keys, next, err := list(ctx, page.After, page.Size)
	if err != nil {
		return nil, err
	}
	return &capgatepb.ListKeysResponse{Keys: keys, NextPageToken: paging.Token(next)}, nil
}

// listKeys returns a page of a tenant's keys.
func (s *server) listKeys(ctx context.Context, of, after string, size int) (keys []*capgatepb.Key, next string,
	err error) {
	h, err := s.keyAccess(ctx, of, false)
	if err != nil {
		return nil, "", err
	}
	var stored []*tenant.Key
	if s.Store != nil {
		if stored, next, err = s.Store.ListKeys(ctx, h.of, h.uid, after, size); err != nil {
			return nil, "", err
		}
	}
	p := merged[*capgatepb.Key]{after: after, upTo: next}
	for _, k := range stored {
		if s.Keys.Find(k.ID) == nil {
			p.all = append(p.all, keyOf(k, inRedis))
		}
	}
	for _, k := range s.Keys.Of(h.of) {
		if p.contains(k.ID) {
			p.all = append(p.all, keyOf(k, inFile))
		}
	}
	keys, next = p.truncate(size)
	return keys, next, nil
}

// keyAccessByID resolves a request about a single key. Operators need not name the key's tenant.
func (s *server) keyAccessByID(ctx context.Context, name, id string, change bool) (keyAccess, error) {
	by, err := s.authenticate(ctx)
	if err != nil || !by.operator || len(by.some()) == 1 || name != tenant.All || s.Roster == nil {
		return s.keyAccess(ctx, name, change)
	}
	k := s.Keys.Find(id)
	if k == nil && s.Store != nil && tenant.IsKeyID(id) {
		k, err = s.Store.FindKey(ctx, id)
	}
	switch {
	case err != nil:
		return keyAccess{}, err
	case k == nil || by.some() != nil && !slices.Contains(by.some(), k.Tenant):
		return keyAccess{}, tenant.ErrKeyUnknown
	}
	return s.keyAccess(ctx, k.Tenant, change)
}
