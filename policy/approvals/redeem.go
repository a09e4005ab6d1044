package approvals

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Redeem consumes an approval for a call. Of concurrent callers, on any replicas, only one succeeds. The others
// are refused with the approval's state (APPROVAL_UNKNOWN, APPROVAL_PENDING, APPROVAL_DENIED, APPROVAL_EXPIRED,
// APPROVAL_USED). A call with another binding gets APPROVAL_MISMATCH with the different fields, and leaves the
// approval unchanged.
//
// If the result is unknown (APPROVALS_UNAVAILABLE), the call must not run; the approval may be used.
func (k *Service) Redeem(ctx context.Context, id string, r *Request) (Redemption, *call.Refusal) {
	if !isID(id) {
		return Redemption{}, k.count(refusedState(0, id))
	}
	id = strings.Clone(id)
	w, refusal := k.bindingOf(ctx, r)
	if refusal != nil {
		return Redemption{}, refusal
	}
	u := Redemption{Tenant: w.Tenant, ID: id, token: rand.Text()}
	was, trace, err := k.redeemWithKeys(ctx, &w, r.Settings, id, u.token)
	var mismatch *MismatchError
	switch {
	case errors.As(err, &mismatch):
		return Redemption{}, k.count(refusedMismatch(mismatch.Fields, id))
	case errors.Is(err, ErrUnknown):
		return Redemption{}, k.count(refusedState(0, id))
	case err != nil:
		return Redemption{}, k.count(refusedUnavailable)
	case was == Denied:
		return Redemption{}, k.count(refusedDenied("the call was denied", id, k.commentOf(ctx, w.Tenant, id)))
	case was != Approved:
		refusal = refusedState(was, id)
		if page := k.link(&Approval{ID: id, Binding: w}); was == Pending && page != "" {
			refusal.Metadata["approval_link"] = page
		}
		return Redemption{}, k.count(refusal)
	}
	k.counters.used.Add(1)
	u.Trace = trace
	return u, nil
}

// bindingOf returns the binding of a call.
func (k *Service) bindingOf(ctx context.Context, r *Request) (w Binding, refusal *call.Refusal) {
	refusal = k.withArguments(ctx, r, func(args *arguments) { w = newBinding(r, args) })
	return w, refusal
}

// redeemWithKeys tries all keys: another replica, or this one earlier, may have created the approval with
// another key.
func (k *Service) redeemWithKeys(ctx context.Context, w *Binding, settings []Sum, id, token string) (was State,
	trace string, err error) {
	for i := 0; ; i++ {
		was, trace, err = k.store.Redeem(ctx, w, id, token)
		var mismatch *MismatchError
		if i+1 >= len(settings) || !errors.As(err, &mismatch) || len(mismatch.Fields) != 1 ||
			mismatch.Fields[0] != SettingsField {
			return was, trace, err
		}
		w.Settings = settings[i+1]
	}
}

// ErrNotUsed is the error of Release for an approval that this redemption does not hold.
var ErrNotUsed = errors.New("the approval is not in use by this call")

// Release returns the approval of a call that provably never started. It can be redeemed again until it
// expires.
func (k *Service) Release(ctx context.Context, u Redemption) error {
	if u.token == "" {
		return ErrNotUsed
	}
	released, err := k.store.Release(ctx, u.Tenant, u.ID, u.token)
	switch {
	case err != nil:
		return refusedUnavailable
	case !released:
		return ErrNotUsed
	}
	k.counters.released.Add(1)
	return nil
}
