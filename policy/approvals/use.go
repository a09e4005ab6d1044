package approvals

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Use consumes an approval for a call: of any number of callers, on any replicas, one gets
// it. The others are refused with what it was (APPROVAL_UNKNOWN, APPROVAL_PENDING,
// APPROVAL_DENIED, APPROVAL_EXPIRED, APPROVAL_USED), or with APPROVAL_MISMATCH, and which
// words differ, where it is of another call, which leaves it as it is.
//
// Where the store does not say whether it did (APPROVALS_UNAVAILABLE), the call must not
// run; the approval may be used.
func (k *Keeper) Use(ctx context.Context, id string, r *Request) (Use, *call.Refusal) {
	if !isID(id) {
		return Use{}, k.refused(refusedState(0, id))
	}
	id = strings.Clone(id)
	w, refusal := k.wordsOf(ctx, r)
	if refusal != nil {
		return Use{}, refusal
	}
	u := Use{Tenant: w.Tenant, ID: id, token: rand.Text()}
	was, trace, err := k.useUnder(ctx, w, r.Settings, id, u.token)
	var mismatch *MismatchError
	switch {
	case errors.As(err, &mismatch):
		return Use{}, k.refused(refusedMismatch(mismatch.Words, id))
	case errors.Is(err, ErrUnknown):
		return Use{}, k.refused(refusedState(0, id))
	case err != nil:
		return Use{}, k.refused(refusedAway)
	case was == Denied:
		return Use{}, k.refused(refusedDenied("the call was denied", id, k.comment(ctx, w.Tenant, id)))
	case was != Approved:
		return Use{}, k.refused(refusedState(was, id))
	}
	k.counted.used.Add(1)
	u.Trace = trace
	return u, nil
}

// wordsOf are those that an approval of the call has.
func (k *Keeper) wordsOf(ctx context.Context, r *Request) (*Words, *call.Refusal) {
	done, refusal := k.turn(ctx, r)
	if refusal != nil {
		return nil, refusal
	}
	defer done()
	args, refusal := k.read(ctx, r)
	if refusal != nil {
		return nil, refusal
	}
	w := words(r, &args)
	return &w, nil
}

// useUnder tries the keys that there are: another replica, or this one before, may have asked
// under another.
func (k *Keeper) useUnder(ctx context.Context, w *Words, settings []Sum, id, token string) (was State, trace string, err error) {
	for i := 0; ; i++ {
		was, trace, err = k.store.Use(ctx, w, id, token)
		var mismatch *MismatchError
		if i+1 >= len(settings) || !errors.As(err, &mismatch) || len(mismatch.Words) != 1 || mismatch.Words[0] != SettingsWord {
			return was, trace, err
		}
		w.Settings = settings[i+1]
	}
}

// ErrNotUsed is what Release says of an approval that this use does not have.
var ErrNotUsed = errors.New("the approval is not used by this call")

// Release gives an approval back whose call provably never started. It can be used again
// if its time is not over.
func (k *Keeper) Release(ctx context.Context, u Use) error {
	if u.token == "" {
		return ErrNotUsed
	}
	released, err := k.store.Release(ctx, u.Tenant, u.ID, u.token)
	switch {
	case err != nil:
		return refusedAway
	case !released:
		return ErrNotUsed
	}
	k.counted.released.Add(1)
	return nil
}
