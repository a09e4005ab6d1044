package admin

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/tenant"
)

// Stored changes the stored objects of a kind for operators.
type Stored struct {
	Kind    stored.Kind
	Objects interface { // a stored.Mirror
		Write(ctx context.Context, r *stored.Record, etag string) error
	}
	Tenants *tenant.Roster // nil means only tenant.Default exists
	Audit   *audit.Log     // optional

	Invalid, Changed, Full, Unavailable string // reasons of refusals
}

// Record returns a record without text for the object that a request names.
func (s *Stored) Record(ctx context.Context, req OfTenant, name string) (*stored.Record, error) {
	of, err := TenantOf(ctx, s.Tenants, req, s.Invalid)
	if err != nil {
		return nil, err
	}
	if problem := s.Kind.CheckName(name); problem != "" {
		return nil, call.InvalidField(s.Invalid, "name", problem)
	}
	r := &stored.Record{Tenant: of, Name: name, By: operator.Authenticated(ctx)}
	if of == "" {
		return r, nil
	}
	settings, err := s.Tenants.Settings(ctx, of)
	r.UID = settings.UID()
	return r, err
}

// Write writes an object. The audit log records what was done to it.
func (s *Stored) Write(ctx context.Context, r *stored.Record, etag, what string) error {
	err := s.Objects.Write(ctx, r, etag)
	if err == nil || errors.Is(err, stored.ErrUnread) {
		Record(ctx, s.Audit, s.Kind.Name+"."+what, r.Tenant, s.Kind.Name, r.Name)
	}
	return err
}

// Delete deletes the object that a request names, and returns its tenant. The error stored.ErrUnknown means that there
// is none.
func (s *Stored) Delete(ctx context.Context, req OfTenant, name, etag string) (of string, err error) {
	if of, err = TenantOf(ctx, s.Tenants, req, s.Invalid); err != nil {
		return "", err
	}
	err = s.Write(ctx, &stored.Record{Tenant: of, Name: name}, etag, "deleted")
	if errors.Is(err, stored.ErrUnread) {
		err = nil
	}
	return of, err
}

// Fault returns the refusal for an error of the store.
func (s *Stored) Fault(err error) *call.Refusal {
	switch {
	case errors.Is(err, stored.ErrUnread):
		return &call.Refusal{Kind: call.Unavailable, Reason: s.Unavailable, Message: err.Error()}
	case errors.Is(err, stored.ErrChanged):
		return &call.Refusal{Kind: call.Aborted, Reason: s.Changed, Message: "the " + s.Kind.Name +
			" was changed in the meantime; read it again, and repeat the change"}
	case errors.Is(err, stored.ErrFull):
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: s.Full, Message: "there are too many " +
			s.Kind.Names + ", or they are too large: " + s.Kind.Words()}
	}
	return StoreUnavailable(s.Unavailable, s.Kind.Names, err)
}

// StoreUnavailable returns the refusal for a store that does not respond.
func StoreUnavailable(reason, of string, err error) *call.Refusal {
	return &call.Refusal{Kind: call.Unavailable, Reason: reason,
		Message: "the store of " + of + " is unavailable; repeat the request: " + err.Error()}
}
