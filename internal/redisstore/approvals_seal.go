package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy/approvals"
)

// An approval has two seals. The first is about what it holds for and what its approver sees, none of which changes. The second
// is made by the gateway that takes the answer, of the first, the answer and until when that holds. What scripts change
// besides, such as the use of an approval, only restricts it.

// laterOfApprovals are the fields of an approval that its first seal is not about.
var laterOfApprovals = map[string]bool{
	"seal": true, "state": true, "created": true, "expires": true, "answered": true, "answer": true, "by": true,
	"comment":  true,
	"remember": true, "changed": true, "token": true, "released": true, "answer_seal": true,
}

func (a *ApprovalStore) recordKey(tenant, id string) string {
	return a.key(approvalTag(tenant), "record", id)
}

// sealRecord adds the first seal to the fields that an approval is made with.
func (a *ApprovalStore) sealRecord(tenant, id, call, grant string, fields []any) []any {
	all := fieldsOf(fields)
	all["call"], all["grant"] = call, grant
	if seal := a.sign(ApprovalRecord, a.recordKey(tenant, id), sortedFields(all, laterOfApprovals)...); seal != "" {
		fields = append(fields, "seal", seal)
	}
	return fields
}

// signed says whether what was found under an approval's id is signed as it stands. What allows nothing needs no
// second seal.
func (a *ApprovalStore) signed(tenant, id string, f map[string]string) bool {
	key := a.recordKey(tenant, id)
	if !a.verify(ApprovalRecord, key, f["seal"], sortedFields(f, laterOfApprovals)...) {
		return false
	}
	switch f["state"] {
	case approvals.Approved.String(), approvals.Used.String():
		return a.verify(ApprovalAnswer, key, f["answer_seal"], answerParts(f, approvals.Approved.String(), f["expires"])...)
	}
	return true
}

func answerParts(f map[string]string, state, expires string) []string {
	return []string{f["seal"], state, expires, f["by"], f["comment"], f["remember"]}
}

// answering is what an answer needs besides what it says, where records are signed.
type answering struct {
	session  string // seal of the session's answer
	expected string // the first seal of the approval
	expires  string // until when the answer holds, ms
	seal     string // the second
}

// sealAnswer looks at the approval that is to be answered: only one that is signed gets an answer that is.
func (a *ApprovalStore) sealAnswer(
	ctx context.Context, tenant, id string, r *approvals.StoredAnswer,
) (with answering, err error) {
	if !a.store.seals.on() {
		return with, nil
	}
	said, err := a.ask(ctx, getScript, tenant, id)
	if err != nil {
		return with, err
	}
	if len(said) == 0 {
		return with, approvals.ErrUnknown
	}
	f := pairs(said[0])
	if !a.signed(tenant, id, f) {
		return with, approvals.ErrUnknown
	}
	var now time.Time
	err = a.do(ctx, func(ctx context.Context, c redis.Cmdable) (err error) {
		now, err = c.Time(ctx).Result()
		return err
	})
	if err != nil {
		return with, err
	}
	state := r.State.String()
	with.expected, with.expires = f["seal"], strconv.FormatInt(now.Add(r.TTL).UnixMilli(), 10)
	f["by"], f["comment"], f["remember"] = r.By, r.Comment, r.Remember.String()
	with.seal = a.sign(ApprovalAnswer, a.recordKey(tenant, id), answerParts(f, state, with.expires)...)
	with.session = a.sign(ApprovalAnswer, a.sessionKey(tenant, f["grant"]), state, id)
	return with, nil
}

func (a *ApprovalStore) sessionKey(tenant, sum string) string {
	return a.key(approvalTag(tenant), "session", sum)
}

// drop deletes the unsigned key that led a call to an approval or to a session's answer.
func (a *ApprovalStore) drop(ctx context.Context, key string) error {
	return a.do(ctx, func(ctx context.Context, c redis.Cmdable) error { return c.Del(ctx, key).Err() })
}
