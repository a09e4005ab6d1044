package redisstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

var (
	createApprovalScript   = newScript("approvals_create")
	redeemScript           = newScript("approvals_redeem")
	releaseScript          = newScript("approvals_release")
	answerScript           = newScript("approvals_answer")
	withdrawApprovalScript = newScript("approvals_withdraw")
	getScript              = newScript("approvals_get")
	pendingScript          = newScript("approvals_pending")
	stateScript            = newScript("approvals_state")
	listScript             = newScript("approvals_list")
	eventsScript           = newScript("approvals_events")
)

// ApprovalStore holds the approvals of all tenants. It is an approvals.Store.
type ApprovalStore struct {
	client
	expired atomic.Int64
}

// endedApprovalTTL is the time for which an approval can be read after its end.
const endedApprovalTTL = time.Hour

// Approvals returns the store of approvals.
func (s *Store) Approvals() *ApprovalStore { return &ApprovalStore{client: s.client(Approvals)} }

// runner runs a script.
type runner func(ctx context.Context, s script, keys []string, args ...any) *reply

// exec runs a script, and returns its reply without the counts.
func (a *ApprovalStore) exec(ctx context.Context, s script, tenant string, args ...any) *reply {
	return a.execWith(ctx, a.read, s, tenant, args...)
}

// execWith is exec with another way to run the script.
func (a *ApprovalStore) execWith(ctx context.Context, run runner, s script, tenant string, args ...any) *reply {
	keys := a.keys([]string{tenant}, "{TENANT:approvals}:index", "{TENANT:approvals}:open", "{TENANT:approvals}:events")
	tag := a.key("{TENANT:approvals}", tenant)
	all := append([]any{tag + ":", a.channel(approvalsChannel), joinWords([]string{tenant}),
		endedApprovalTTL.Milliseconds()},
		args...)
	r := run(ctx, s, keys, all...)
	a.expired.Add(r.int())
	for range r.int() {
		a.malformed(tag)
	}
	return r
}

// Expired implements approvals.Store.
func (a *ApprovalStore) Expired() int64 { return a.expired.Load() }

// Create implements approvals.CallStore.
func (a *ApprovalStore) Create(ctx context.Context, d *approvals.Draft) (approvals.CreateResult, error) {
	session := ""
	if d.SessionSum != nil {
		session = hex.EncodeToString(d.SessionSum[:])
	}
	call := hex.EncodeToString(d.CallSum[:])
	args := []any{d.ID, call, session, d.TTL.Milliseconds(), d.MaxOpen, d.Escalates.Milliseconds()}
	args = append(args, a.signRecord(d.Tenant, d.ID, call, session, encodeFields(approvalFields(&d.Record)))...)
	for attempt := 1; ; attempt++ {
		asked, bad, err := a.createOnce(ctx, d.Tenant, call, session, args)
		if bad == "" || err != nil {
			return asked, err
		}
		if attempt == maxUnsigned {
			return approvals.CreateResult{}, errors.New("create an approval: records in redis have no valid signature")
		}
		if err := a.drop(ctx, bad); err != nil {
			return approvals.CreateResult{}, err
		}
	}
}

// maxUnsigned bounds the unsigned records that one call deletes.
const maxUnsigned = 3

// createOnce runs the script of Create once. bad is the key that led to an unsigned record, which must be deleted.
func (a *ApprovalStore) createOnce(
	ctx context.Context, tenant, call, session string, args []any,
) (asked approvals.CreateResult, bad string, err error) {
	r := a.exec(ctx, createApprovalScript, tenant, args...)
	switch what := r.text(); what {
	case "full":
		return approvals.CreateResult{LimitReached: true}, "", r.end()
	case "remembered":
		state, id, left, seal := r.text(), r.text(), r.millis(), r.text()
		if err := r.end(); err != nil {
			return approvals.CreateResult{}, "", err
		}
		if key := a.sessionKey(tenant, session); !a.verify(ApprovalAnswer, key, seal, state, id) {
			return approvals.CreateResult{}, key, nil
		}
		asked.ID, asked.Left = id, left
		asked.Remembered, _ = approvals.ParseState(state)
		return asked, "", nil
	default:
		f := r.fields()
		if err := r.end(); err != nil {
			return approvals.CreateResult{}, "", err
		}
		if !a.signed(tenant, f["id"], f) || f["call"] != call && a.store.signer.on() {
			return approvals.CreateResult{}, a.key("{TENANT:approvals}:call:SUM", tenant, call), nil
		}
		record, err := a.recordOf(tenant, f)
		return approvals.CreateResult{Record: record, New: what == "new"}, "", err
	}
}

// Redeem implements approvals.CallStore. A redemption that failed, but that Redis may have executed, is released: its
// call does not run, so a failover may undo the redemption or the release.
func (a *ApprovalStore) Redeem(
	ctx context.Context, w *approvals.Binding, id, token string,
) (was approvals.State, trace string, err error) {
	redeemed := func(r *reply) bool {
		_, _ = r.int(), r.int()
		return r.text() == "approved"
	}
	r := a.execWith(ctx, func(ctx context.Context, s script, keys []string, args ...any) *reply {
		return a.runReplicated(ctx, redeemed, s, keys, args...)
	}, redeemScript, w.Tenant, append([]any{id, token}, encodeFields(bindingFields(w))...)...)
	what := r.text()
	if err := *r.err; err != nil {
		tenant, id := strings.Clone(w.Tenant), strings.Clone(id) // they may outlive the call
		a.store.undo(ctx, tenant, err, func(ctx context.Context) (bool, error) {
			return a.Release(ctx, tenant, id, token)
		})
		return 0, "", err
	}
	switch what {
	case "unknown":
		return 0, "", approvals.ErrUnknown
	case "mismatch":
		m := &approvals.MismatchError{Fields: r.list().texts()}
		return 0, "", cmp.Or(r.end(), error(m))
	}
	state, ok := approvals.ParseState(what)
	if !ok {
		return 0, "", errReply
	}
	if r.more() {
		trace = r.text()
		if f := r.fields(); r.end() == nil && !a.signed(w.Tenant, id, f) {
			return 0, "", approvals.ErrUnknown
		}
	}
	return state, trace, r.end()
}

// Release implements approvals.CallStore.
func (a *ApprovalStore) Release(ctx context.Context, tenant, id, token string) (bool, error) {
	r := a.exec(ctx, releaseScript, tenant, id, token)
	return r.text() == "released", r.end()
}

// Answer implements approvals.ReviewStore.
func (a *ApprovalStore) Answer(
	ctx context.Context, tenant, id string, r *approvals.StoredAnswer,
) (approvals.Record, approvals.AnswerResult, error) {
	with, err := a.signAnswer(ctx, tenant, id, r)
	if err != nil {
		return approvals.Record{}, 0, err
	}
	got := a.exec(ctx, answerScript, tenant, a.answerArgs(id, r, &with)...)
	what := got.text()
	if what == "unknown" {
		return approvals.Record{}, 0, approvals.ErrUnknown
	}
	f := got.fields()
	if err := got.end(); err != nil {
		return approvals.Record{}, 0, err
	}
	if what == "stale" {
		err = a.dropForged(ctx, tenant, id, f)
		return approvals.Record{}, approvals.AnswerStale, err
	}
	record, err := a.record(tenant, f)
	if err == nil && what == "sessionless" {
		err = approvals.ErrNoSession
	}
	return record, map[string]approvals.AnswerResult{"answered": approvals.AnswerGiven, "late": approvals.AnswerLate,
		"recorded": approvals.AnswerRecorded}[what], err
}

// Withdraw implements approvals.ReviewStore.
func (a *ApprovalStore) Withdraw(ctx context.Context, tenant, id string) error {
	return a.exec(ctx, withdrawApprovalScript, tenant, id).end()
}

// Get implements approvals.ReviewStore.
func (a *ApprovalStore) Get(ctx context.Context, tenant, id string) (approvals.Record, error) {
	f, err := a.signedFields(ctx, tenant, id)
	if err != nil {
		return approvals.Record{}, err
	}
	return a.recordOf(tenant, f)
}

// signedFields returns the fields of an approval. The error of one without valid signatures is approvals.ErrUnknown.
func (a *ApprovalStore) signedFields(ctx context.Context, tenant, id string) (map[string]string, error) {
	r := a.exec(ctx, getScript, tenant, id)
	if !r.more() {
		return nil, cmp.Or(r.end(), approvals.ErrUnknown)
	}
	f := r.fields()
	if err := r.end(); err != nil {
		return nil, err
	}
	if !a.signed(tenant, id, f) {
		return nil, approvals.ErrUnknown
	}
	return f, nil
}

// State implements approvals.ReviewStore.
func (a *ApprovalStore) State(ctx context.Context, tenant, id string) (approvals.State, time.Duration, error) {
	r := a.exec(ctx, stateScript, tenant, id)
	if !r.more() {
		return 0, 0, cmp.Or(r.end(), approvals.ErrUnknown)
	}
	state, _ := approvals.ParseState(r.text())
	return state, r.millis(), r.end()
}

// Pending returns a tenant's backlog of pending approvals. It records those that have expired.
func (a *ApprovalStore) Pending(ctx context.Context, tenant string) (p approvals.Backlog, err error) {
	r := a.exec(ctx, pendingScript, tenant)
	p.Count = int(r.int())
	if oldest := r.text(); p.Count > 0 && !parseMillis(&p.Oldest, oldest) {
		r.fail()
	}
	return p, r.end()
}

// Watch implements approvals.Store.
func (a *ApprovalStore) Watch(ctx context.Context, changed func(approvals.Notification), connected func()) {
	a.watchApprovals(ctx, func(tenant, id string, kind approvals.Kind, session string) {
		n := approvals.Notification{Tenant: tenant, ID: id, Kind: kind}
		if session != "" {
			n.Session = new(approvals.Sum)
			if !decodeHex(n.Session[:], session) {
				a.malformed(a.channel(approvalsChannel))
				connected() // an event was lost
				return
			}
		}
		changed(n)
	}, connected)
}

// approvalsChannel is the channel of the events of approvals.
const approvalsChannel = "approvals"

// watchApprovals calls changed for each event of an approval, until ctx ends. session is the sum of the approval's
// session in hexadecimal; "": none.
func (c client) watchApprovals(ctx context.Context,
	changed func(tenant, id string, kind approvals.Kind, session string), connected func()) {
	channel := c.channel(approvalsChannel)
	c.subscribe(ctx, channel, func(message string) {
		all, ok := splitWords(message, 4)
		if !ok {
			c.malformed(channel)
			return
		}
		changed(all[0], all[1], approvals.Kind(all[2]), all[3])
	}, connected)
}

func decodeHex(to []byte, text string) bool {
	if hex.DecodedLen(len(text)) != len(to) {
		return false
	}
	_, err := hex.Decode(to, []byte(strings.ToLower(text)))
	return err == nil
}

var _ approvals.Store = (*ApprovalStore)(nil)
