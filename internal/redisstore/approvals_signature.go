package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy/approvals"
)

// An approval has two signatures. The first covers its binding and its preview, which never change. The second is
// made by the gateway that takes the answer; it covers the first one, the answer and its end. The other fields, which
// scripts change, can only restrict the approval.

// unsignedApprovalFields are the fields of an approval that its first signature does not cover.
var unsignedApprovalFields = namesOf(stateFields(new(approvals.Record)))

func (a *ApprovalStore) recordKey(tenant, id string) string {
	return a.key("{TENANT:approvals}:record:ID", tenant, id)
}

// signRecord adds the first signature to the fields of a new approval.
func (a *ApprovalStore) signRecord(tenant, id, call, grant string, fields []any) []any {
	all := valuesOf(fields).pairs()
	all["call"], all["grant"] = call, grant
	return a.seal(fields, ApprovalRecord, a.recordKey(tenant, id), sortedFields(all, unsignedApprovalFields)...)
}

// signed reports whether an approval has the signatures that its state requires. Only states that allow calls require
// the second one.
func (a *ApprovalStore) signed(tenant, id string, f map[string]string) bool {
	key := a.recordKey(tenant, id)
	if !a.verify(ApprovalRecord, key, f["seal"], sortedFields(f, unsignedApprovalFields)...) {
		return false
	}
	switch f["state"] {
	case approvals.Approved.String(), approvals.Used.String():
		return a.verify(ApprovalAnswer, key, f["answer_seal"],
			answerParts(f, approvals.Approved.String(), f["expires"])...)
	}
	return true
}

func answerParts(f map[string]string, state, expires string) []string {
	return []string{f["seal"], state, expires, f["by"], f["comment"], f["remember"]}
}

// answerSignatures are the additional fields of an answer where records are signed.
type answerSignatures struct {
	session  string // signature of the answer for the session
	expected string // the first signature of the approval
	expires  string // end of the answer, ms
	seal     string // the second signature
	given    string // the person's answer, signed
}

// signAnswer verifies the approval that is to be answered, and signs the answer: an unsigned approval gets no answer.
func (a *ApprovalStore) signAnswer(
	ctx context.Context, tenant, id string, r *approvals.StoredAnswer,
) (with answerSignatures, err error) {
	if !a.store.signer.on() {
		with.given, err = encodeGiven(&r.Given, "")
		return with, err
	}
	f, err := a.signedFields(ctx, tenant, id)
	if err != nil {
		return with, err
	}
	var now time.Time
	err = a.do(ctx, func(ctx context.Context, c redis.Cmdable) (err error) {
		now, err = c.Time(ctx).Result()
		return err
	})
	if err != nil {
		return with, err
	}
	with.given, err = encodeGiven(&r.Given, a.signGiven(tenant, id, f["seal"], &r.Given))
	state := r.State.String()
	with.expected, with.expires = f["seal"], strconv.FormatInt(now.Add(r.TTL).UnixMilli(), 10)
	f["by"], f["comment"], f["remember"] = r.By, r.Comment, r.Remember.String()
	with.seal = a.sign(ApprovalAnswer, a.recordKey(tenant, id), answerParts(f, state, with.expires)...)
	with.session = a.sign(ApprovalAnswer, a.sessionKey(tenant, f["grant"]), state, id)
	return with, err
}

func (a *ApprovalStore) sessionKey(tenant, sum string) string {
	return a.key("{TENANT:approvals}:session:SUM", tenant, sum)
}

// drop deletes the key that led a call to an unsigned approval or answer.
func (a *ApprovalStore) drop(ctx context.Context, key string) error {
	return a.do(ctx, func(ctx context.Context, c redis.Cmdable) error { return c.Del(ctx, key).Err() })
}
