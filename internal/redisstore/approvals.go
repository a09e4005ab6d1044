package redisstore

import (
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

var errApprovals = errors.New("a script of approvals returned an unexpected answer")

// runner runs a script.
type runner func(ctx context.Context, s script, keys []string, args ...any) ([]any, error)

// exec runs a script, and returns its answer without the counts.
func (a *ApprovalStore) exec(ctx context.Context, s script, tenant string, args ...any) ([]any, error) {
	return a.execWith(ctx, func(ctx context.Context, s script, keys []string, args ...any) ([]any, error) {
		return a.run(ctx, s, keys, args...).Slice()
	}, s, tenant, args...)
}

// execWith is exec with another way to run the script.
func (a *ApprovalStore) execWith(
	ctx context.Context, run runner, s script, tenant string, args ...any,
) ([]any, error) {
	keys := a.keys([]string{tenant}, "{TENANT:approvals}:index", "{TENANT:approvals}:open", "{TENANT:approvals}:events")
	tag := a.key("{TENANT:approvals}", tenant)
	all := append([]any{tag + ":", a.channel(approvalsChannel), joinWords([]string{tenant}),
		endedApprovalTTL.Milliseconds()},
		args...)
	reply, err := run(ctx, s, keys, all...)
	if err != nil {
		return nil, err
	}
	if len(reply) < 2 {
		return nil, errApprovals
	}
	expired, _ := reply[0].(int64)
	bad, _ := reply[1].(int64)
	a.expired.Add(expired)
	for range bad {
		a.malformed(tag)
	}
	return reply[2:], nil
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
			return approvals.CreateResult{}, errApprovals
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
	reply, err := a.exec(ctx, createApprovalScript, tenant, args...)
	if err != nil {
		return approvals.CreateResult{}, "", err
	}
	switch what := textAt(reply, 0); {
	case what == "full":
		return approvals.CreateResult{LimitReached: true}, "", nil
	case what == "remembered" && len(reply) == 5:
		if key := a.sessionKey(tenant, session); !a.verify(ApprovalAnswer, key, textAt(reply, 4), textAt(reply, 1),
			textAt(reply, 2)) {
			return approvals.CreateResult{}, key, nil
		}
		left, _ := reply[3].(int64)
		state, _ := approvals.ParseState(textAt(reply, 1))
		asked := approvals.CreateResult{Remembered: state, Left: time.Duration(left) * time.Millisecond}
		asked.ID = textAt(reply, 2)
		return asked, "", nil
	case len(reply) == 2:
		f := pairs(reply[1])
		if !a.signed(tenant, f["id"], f) || f["call"] != call && a.store.signer.on() {
			return approvals.CreateResult{}, a.key("{TENANT:approvals}:call:SUM", tenant, call), nil
		}
		r, err := a.recordOf(tenant, f)
		return approvals.CreateResult{Record: r, New: what == "new"}, "", err
	}
	return approvals.CreateResult{}, "", errApprovals
}

// Redeem implements approvals.CallStore. A redemption that failed, but that Redis may have executed, is released: its
// call does not run, so a failover may undo the redemption or the release.
func (a *ApprovalStore) Redeem(
	ctx context.Context, w *approvals.Binding, id, token string,
) (was approvals.State, trace string, err error) {
	reply, err := a.execWith(ctx, func(ctx context.Context, s script, keys []string, args ...any) ([]any, error) {
		return a.runReplicated(ctx, func(reply []any) bool { return textAt(reply, 2) == "approved" }, s, keys, args...)
	}, redeemScript, w.Tenant, append([]any{id, token}, encodeFields(bindingFields(w))...)...)
	if err != nil {
		tenant, id := strings.Clone(w.Tenant), strings.Clone(id) // they may outlive the call
		a.store.undo(ctx, tenant, err, func(ctx context.Context) (bool, error) {
			return a.Release(ctx, tenant, id, token)
		})
		return 0, "", err
	}
	switch what := textAt(reply, 0); what {
	case "unknown":
		return 0, "", approvals.ErrUnknown
	case "mismatch":
		if len(reply) < 2 {
			return 0, "", errApprovals
		}
		list, _ := reply[1].([]any)
		m := &approvals.MismatchError{}
		for i := range list {
			m.Fields = append(m.Fields, textAt(list, i))
		}
		return 0, "", m
	default:
		state, ok := approvals.ParseState(what)
		if !ok {
			return 0, "", errApprovals
		}
		if len(reply) == 3 {
			if f := pairs(reply[2]); !a.signed(w.Tenant, id, f) {
				return 0, "", approvals.ErrUnknown
			}
		}
		return state, textAt(reply, 1), nil
	}
}

// Release implements approvals.CallStore.
func (a *ApprovalStore) Release(ctx context.Context, tenant, id, token string) (bool, error) {
	reply, err := a.exec(ctx, releaseScript, tenant, id, token)
	return textAt(reply, 0) == "released", err
}

// Answer implements approvals.ReviewStore.
func (a *ApprovalStore) Answer(
	ctx context.Context, tenant, id string, r *approvals.StoredAnswer,
) (approvals.Record, approvals.AnswerResult, error) {
	with, err := a.signAnswer(ctx, tenant, id, r)
	if err != nil {
		return approvals.Record{}, 0, err
	}
	reply, err := a.exec(ctx, answerScript, tenant, a.answerArgs(id, r, &with)...)
	if err != nil {
		return approvals.Record{}, 0, err
	}
	what := textAt(reply, 0)
	if what == "unknown" {
		return approvals.Record{}, 0, approvals.ErrUnknown
	}
	if len(reply) != 2 {
		return approvals.Record{}, 0, errApprovals
	}
	f := pairs(reply[1])
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
	_, err := a.exec(ctx, withdrawApprovalScript, tenant, id)
	return err
}

// Get implements approvals.ReviewStore.
func (a *ApprovalStore) Get(ctx context.Context, tenant, id string) (approvals.Record, error) {
	reply, err := a.exec(ctx, getScript, tenant, id)
	if err != nil {
		return approvals.Record{}, err
	}
	if len(reply) == 0 {
		return approvals.Record{}, approvals.ErrUnknown
	}
	f := pairs(reply[0])
	if !a.signed(tenant, id, f) {
		return approvals.Record{}, approvals.ErrUnknown
	}
	return a.recordOf(tenant, f)
}

// State implements approvals.ReviewStore.
func (a *ApprovalStore) State(ctx context.Context, tenant, id string) (approvals.State, time.Duration, error) {
	reply, err := a.exec(ctx, stateScript, tenant, id)
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 2 {
		return 0, 0, approvals.ErrUnknown
	}
	state, _ := approvals.ParseState(textAt(reply, 0))
	left, _ := reply[1].(int64)
	return state, time.Duration(left) * time.Millisecond, nil
}

// Pending returns a tenant's backlog of pending approvals. It records those that have expired.
func (a *ApprovalStore) Pending(ctx context.Context, tenant string) (p approvals.Backlog, err error) {
	reply, err := a.exec(ctx, pendingScript, tenant)
	if err != nil {
		return p, err
	}
	n, ok := int64(0), false
	if len(reply) == 2 {
		n, ok = reply[0].(int64)
	}
	if !ok {
		return p, errApprovals
	}
	if p.Count = int(n); n > 0 && !parseMillis(&p.Oldest, textAt(reply, 1)) {
		return p, errApprovals
	}
	return p, nil
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

// textAt returns a string of a script's answer, or "".
func textAt(reply []any, i int) string {
	if i >= len(reply) {
		return ""
	}
	text, _ := reply[i].(string)
	return text
}

func decodeHex(to []byte, text string) bool {
	if hex.DecodedLen(len(text)) != len(to) {
		return false
	}
	_, err := hex.Decode(to, []byte(strings.ToLower(text)))
	return err == nil
}

var _ approvals.Store = (*ApprovalStore)(nil)
