package approvals

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Redeem consumes an approval for a call: of any number of callers, on any replicas, one gets
// it. The others are refused with what it was (APPROVAL_UNKNOWN, APPROVAL_PENDING,
// APPROVAL_DENIED, APPROVAL_EXPIRED, APPROVAL_USED), or with APPROVAL_MISMATCH, and which
// words differ, where it is of another call, which leaves it as it is.
//
// Where the store does not say whether it did (APPROVALS_UNAVAILABLE), the call must not
// run; the approval may be used.
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
	was, trace, err := k.redeemWithKeys(ctx, w, r.Settings, id, u.token)
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
		return Redemption{}, k.count(refusedState(was, id))
	}
	k.counters.used.Add(1)
	u.Trace = trace
	return u, nil
}

// bindingOf are those that an approval of the call has.
func (k *Service) bindingOf(ctx context.Context, r *Request) (*Binding, *call.Refusal) {
	done, refusal := k.acquire(ctx, r)
	if refusal != nil {
		return nil, refusal
	}
	defer done()
	args, refusal := k.parse(ctx, r)
	if refusal != nil {
		return nil, refusal
	}
	w := newBinding(r, &args)
	return &w, nil
}

// redeemWithKeys tries the keys that there are: another replica, or this one before, may have asked
// under another.
func (k *Service) redeemWithKeys(ctx context.Context, w *Binding, settings []Sum, id, token string) (was State, trace string, err error) {
	for i := 0; ; i++ {
		was, trace, err = k.store.Redeem(ctx, w, id, token)
		var mismatch *MismatchError
		if i+1 >= len(settings) || !errors.As(err, &mismatch) || len(mismatch.Fields) != 1 || mismatch.Fields[0] != SettingsField {
			return was, trace, err
		}
		w.Settings = settings[i+1]
	}
}

// ErrNotUsed is what Release says of an approval that this use does not have.
var ErrNotUsed = errors.New("the approval is not used by this call")

// Release gives an approval back whose call provably never started. It can be used again
// if its time is not over.
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
