package tenants

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	defaultGrace = 24 * time.Hour
	maxGrace     = 30 * 24 * time.Hour
)

// keyAccess is a principal's access to the keys of a tenant.
type keyAccess struct {
	principal
	of  string // the tenant
	uid string // of a tenant in the store
}

// keyAccess resolves the tenant of a request about keys. If change is true, a store is required.
func (s *server) keyAccess(ctx context.Context, name string, change bool) (h keyAccess, err error) {
	if h.principal, err = s.authenticate(ctx); err != nil {
		return h, err
	}
	if h.of, err = h.tenant(name); err != nil {
		return h, err
	}
	if s.Store == nil && change {
		return h, refusedOff
	}
	if s.Tenants.InFile(h.of) != nil {
		return h, nil
	}
	r, err := s.record(ctx, h.of)
	if err == nil {
		h.uid = r.UID
	}
	return h, err
}

// own returns the principal's own key; nil means none, or the key was deleted meanwhile.
func (s *server) own(ctx context.Context, h *keyAccess) (k *tenant.Key, err error) {
	id := h.keyID()
	if id == "" {
		return nil, nil
	}
	if k = s.Keys.Find(id); k == nil && s.Store != nil {
		k, err = s.Store.FindKey(ctx, id)
	}
	return k, err
}

// CreateKey implements capgatepb.TenantsServer.
func (s *server) CreateKey(ctx context.Context, req *capgatepb.CreateKeyRequest) (*capgatepb.CreateKeyResponse,
	error) {
	h, err := s.keyAccess(ctx, req.GetTenantId(), true)
	if err != nil {
		return nil, err
	}
	k, err := parseKey(req.GetKey())
	if err != nil {
		return nil, err
	}
	own, err := s.own(ctx, &h)
	if err == nil {
		err = h.checkGrant(k, own)
	}
	if err != nil {
		return nil, err
	}
	credential := s.issue(&h, k, own)
	if err = s.changedKey(ctx, "made", &h, k.ID, s.Store.CreateKey(ctx, k)); err != nil {
		return nil, err
	}
	return &capgatepb.CreateKeyResponse{Key: keyOf(k, inRedis), Credential: credential}, nil
}

// parseKey returns the key of a request.
func parseKey(m *capgatepb.Key) (*tenant.Key, error) {
	k := &tenant.Key{Name: m.GetName()}
	if m.GetId() != "" {
		return nil, invalid("key.id", "must be empty; the gateway chooses it")
	}
	if err := checkName("key.name", k.Name); err != nil {
		return nil, err
	}
	for _, name := range m.GetScopes() {
		scope, ok := tenant.ParseScope(name)
		if !ok {
			return nil, invalid("key.scopes", "each must be "+tenant.AllScopes)
		}
		k.Scopes |= scope
	}
	if k.Scopes == 0 {
		k.Scopes = tenant.Invoke | tenant.Read
	}
	for _, name := range m.GetAsserts() {
		what, ok := tenant.ParseAssert(name)
		if !ok {
			return nil, invalid("key.asserts", "each must be user or agent")
		}
		k.Asserts |= what
	}
	if end := m.GetExpireTime(); end != nil {
		if k.Expires = end.AsTime(); end.CheckValid() != nil || !k.Expires.After(time.Now()) {
			return nil, invalid("key.expire_time", "it must be in the future")
		}
		k.Expires = time.UnixMilli(k.Expires.UnixMilli())
	}
	return k, nil
}

// issue gives a key a new id and secret. own is the principal's own key, or nil.
func (s *server) issue(h *keyAccess, k, own *tenant.Key) (credential string) {
	id, secret := tenant.NewCredential()
	k.ID, k.Tenant, k.Hash = id, h.of, tenant.HashOf(secret, s.Pepper())
	k.KeyHistory = tenant.KeyHistory{UID: h.uid, CreatedBy: h.name, Replaces: k.Replaces, First: k.First,
		Makers: tenant.Makers(h.names(), own, k.Makers)}
	return tenant.Credential(id, secret)
}

// GetKey implements capgatepb.TenantsServer.
func (s *server) GetKey(ctx context.Context, req *capgatepb.GetKeyRequest) (*capgatepb.GetKeyResponse, error) {
	h, err := s.keyAccessByID(ctx, req.GetTenantId(), req.GetKeyId(), false)
	if err != nil {
		return nil, err
	}
	k, source, err := s.find(ctx, &h, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	return &capgatepb.GetKeyResponse{Key: keyOf(k, source)}, nil
}

// find returns a key of a tenant.
func (s *server) find(ctx context.Context, h *keyAccess, id string) (k *tenant.Key, source string, err error) {
	if k, source = s.Keys.Find(id), inFile; k == nil && s.Store != nil && tenant.IsKeyID(id) {
		source = inRedis
		if k, err = s.Store.FindKey(ctx, id); err == nil && k != nil && h.uid != "" && k.UID != h.uid {
			k = nil
		}
	}
	if err == nil && (k == nil || k.Tenant != h.of) {
		err = tenant.ErrKeyUnknown
	}
	return k, source, err
}

// change returns a key for a change.
func (s *server) change(ctx context.Context, name, id string) (h keyAccess, k *tenant.Key, err error) {
	if h, err = s.keyAccessByID(ctx, name, id, true); err != nil {
		return h, nil, err
	}
	k, source, err := s.find(ctx, &h, id)
	if err == nil && source == inFile {
		err = refusedKeyInFile
	}
	return h, k, err
}

// RotateKey implements capgatepb.TenantsServer.
func (s *server) RotateKey(ctx context.Context, req *capgatepb.RotateKeyRequest) (*capgatepb.RotateKeyResponse,
	error) {
	grace, err := graceOf(req.GetGrace())
	if err != nil {
		return nil, err
	}
	h, old, err := s.change(ctx, req.GetTenantId(), req.GetKeyId())
	if err != nil {
		return nil, err
	}
	own, err := s.own(ctx, &h)
	if err == nil {
		err = h.checkGrant(old, own)
	}
	if err != nil {
		return nil, err
	}
	next := &tenant.Key{Name: old.Name, Scopes: old.Scopes, Asserts: old.Asserts, Expires: old.Expires,
		KeyHistory: tenant.KeyHistory{Replaces: old.ID, First: old.Line(), Makers: old.Makers}}
	credential := s.issue(&h, next, own)
	err = s.Store.RotateKey(ctx, old.ID, next, grace)
	s.Changed(tenant.Change{Key: next.ID})
	if err = s.changedKey(ctx, "rotated", &h, old.ID, err); err != nil {
		return nil, s.explainRotated(ctx, err, &h, old.ID)
	}
	return &capgatepb.RotateKeyResponse{Key: keyOf(next, inRedis), Credential: credential}, nil
}

// explainRotated adds the successor to the error for a key that is already rotated.
func (s *server) explainRotated(ctx context.Context, err error, h *keyAccess, id string) error {
	if !errors.Is(err, tenant.ErrKeyRotated) {
		return err
	}
	k, _, found := s.find(ctx, h, id)
	if found != nil {
		return err
	}
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "KEY_ROTATED",
		Metadata: map[string]string{"replaced_by": k.ReplacedBy},
		Message:  "the API key is already rotated; rotate its successor " + k.ReplacedBy}
}

func graceOf(d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return defaultGrace, nil
	}
	if grace := d.AsDuration(); d.CheckValid() == nil && grace >= 0 && grace <= maxGrace {
		return grace, nil
	}
	return 0, invalid("grace", "it must be 0s to 2592000s")
}

// RevokeKey implements capgatepb.TenantsServer.
func (s *server) RevokeKey(ctx context.Context, req *capgatepb.RevokeKeyRequest) (*capgatepb.RevokeKeyResponse,
	error) {
	h, k, err := s.change(ctx, req.GetTenantId(), req.GetKeyId())
	if err == nil {
		err = s.changedKey(ctx, "revoked", &h, k.ID, s.Store.RevokeKey(ctx, h.of, k.ID))
	}
	if err == nil {
		k, _, err = s.find(ctx, &h, k.ID)
	}
	if err != nil {
		return nil, err
	}
	return &capgatepb.RevokeKeyResponse{Key: keyOf(k, inRedis)}, nil
}
