package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy/approvals"
)

// ApprovalStore holds the approvals of all tenants. It is an approvals.Store.
type ApprovalStore struct {
	client
	expired atomic.Int64
}

// keptApprovals is the time for which approvals can be read after their end.
const keptApprovals = time.Hour

// Approvals returns the store of approvals.
func (s *Store) Approvals() *ApprovalStore { return &ApprovalStore{client: s.client(Approvals)} }

func approvalTag(tenant string) tag { return tag{tenant, "approvals"} }

var errApprovals = errors.New("invalid answer of an approval script")

// asking runs a script.
type asking func(ctx context.Context, s script, keys []string, args ...any) ([]any, error)

// ask runs a script, and returns its answer without the counts.
func (a *ApprovalStore) ask(ctx context.Context, s script, tenant string, args ...any) ([]any, error) {
	return a.askBy(ctx, func(ctx context.Context, s script, keys []string, args ...any) ([]any, error) {
		return a.run(ctx, s, keys, args...).Slice()
	}, s, tenant, args...)
}

// askBy is ask with another way to run the script.
func (a *ApprovalStore) askBy(ctx context.Context, run asking, s script, tenant string, args ...any) ([]any, error) {
	t := approvalTag(tenant)
	keys := []string{a.key(t, "index"), a.key(t, "open"), a.key(t, "events")}
	all := append([]any{a.key(t) + ":", a.channel("approvals"), words([]string{tenant}), keptApprovals.Milliseconds()},
		args...)
	said, err := run(ctx, s, keys, all...)
	if err != nil {
		return nil, err
	}
	if len(said) < 2 {
		return nil, errApprovals
	}
	expired, _ := said[0].(int64)
	bad, _ := said[1].(int64)
	a.expired.Add(expired)
	for range bad {
		a.malformed(a.key(t))
	}
	return said[2:], nil
}

// Expired implements approvals.Store.
func (a *ApprovalStore) Expired() int64 { return a.expired.Load() }

// Create implements approvals.Calls.
func (a *ApprovalStore) Create(ctx context.Context, d *approvals.Draft) (approvals.CreateResult, error) {
	session := ""
	if d.SessionSum != nil {
		session = hex.EncodeToString(d.SessionSum[:])
	}
	call := hex.EncodeToString(d.CallSum[:])
	args := []any{d.ID, call, session, d.TTL.Milliseconds(), d.MaxOpen}
	args = append(args, a.sealRecord(d.Tenant, d.ID, call, session, approvalFields(&d.Record))...)
	for attempt := 1; ; attempt++ {
		asked, bad, err := a.askOnce(ctx, d.Tenant, call, session, args)
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

// maxUnsigned bounds the unsigned answers that one call drops.
const maxUnsigned = 3

// askOnce is one question of Ask. bad is the key that led to what is not signed, which is as if it were not there.
func (a *ApprovalStore) askOnce(
	ctx context.Context, tenant, call, session string, args []any,
) (asked approvals.CreateResult, bad string, err error) {
	said, err := a.ask(ctx, askScript, tenant, args...)
	if err != nil {
		return approvals.CreateResult{}, "", err
	}
	switch what := textAt(said, 0); {
	case what == "full":
		return approvals.CreateResult{LimitReached: true}, "", nil
	case what == "remembered" && len(said) == 5:
		if key := a.sessionKey(tenant, session); !a.verify(ApprovalAnswer, key, textAt(said, 4), textAt(said, 1),
			textAt(said, 2)) {
			return approvals.CreateResult{}, key, nil
		}
		left, _ := said[3].(int64)
		state, _ := approvals.ParseState(textAt(said, 1))
		asked := approvals.CreateResult{Remembered: state, Left: time.Duration(left) * time.Millisecond}
		asked.ID = textAt(said, 2)
		return asked, "", nil
	case len(said) == 2:
		f := pairs(said[1])
		if !a.signed(tenant, f["id"], f) || f["call"] != call && a.store.seals.on() {
			return approvals.CreateResult{}, a.key(approvalTag(tenant), "call", call), nil
		}
		r, err := a.recordOf(tenant, f)
		return approvals.CreateResult{Record: r, New: what == "new"}, "", err
	}
	return approvals.CreateResult{}, "", errApprovals
}

// Redeem implements approvals.CallStore. A redemption that too few replicas have is released: its call does not
// run, so a failover may undo either of the two.
func (a *ApprovalStore) Redeem(
	ctx context.Context, w *approvals.Binding, id, token string,
) (was approvals.State, trace string, err error) {
	said, err := a.askBy(ctx, func(ctx context.Context, s script, keys []string, args ...any) ([]any, error) {
		return a.runReplicated(ctx, func(said []any) bool { return textAt(said, 2) == "approved" }, s, keys, args...)
	}, useScript, w.Tenant, append([]any{id, token}, wordFields(w)...)...)
	if errors.Is(err, ErrUnreplicated) {
		_, _ = a.Release(context.WithoutCancel(ctx), w.Tenant, id, token) // else it stays used
	}
	if err != nil {
		return 0, "", err
	}
	switch what := textAt(said, 0); what {
	case "unknown":
		return 0, "", approvals.ErrUnknown
	case "mismatch":
		if len(said) < 2 {
			return 0, "", errApprovals
		}
		list, _ := said[1].([]any)
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
		if len(said) == 3 {
			if f := pairs(said[2]); !a.signed(w.Tenant, id, f) {
				return 0, "", approvals.ErrUnknown
			}
		}
		return state, textAt(said, 1), nil
	}
}

// SettingsKey implements approvals.Calls.
func (a *ApprovalStore) SettingsKey(ctx context.Context, proposal []byte) (key []byte, err error) {
	name := a.key(tag{"approvals"}, "key")
	err = a.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		if err := r.SetNX(ctx, name, proposal, 0).Err(); err != nil {
			return err
		}
		key, err = r.Get(ctx, name).Bytes()
		return err
	})
	return key, err
}

// Release implements approvals.Calls.
func (a *ApprovalStore) Release(ctx context.Context, tenant, id, token string) (bool, error) {
	said, err := a.ask(ctx, releaseScript, tenant, id, token)
	return textAt(said, 0) == "released", err
}

// Answer implements approvals.Desk.
func (a *ApprovalStore) Answer(
	ctx context.Context, tenant, id string, r *approvals.StoredAnswer,
) (approvals.Record, bool, error) {
	var lasting any = ""
	if r.Remember == approvals.ThisSession {
		lasting = r.SessionTTL.Milliseconds()
	}
	with, err := a.sealAnswer(ctx, tenant, id, r)
	if err != nil {
		return approvals.Record{}, false, err
	}
	said, err := a.ask(ctx, answerScript, tenant, id, r.Token, r.State.String(), r.TTL.Milliseconds(), lasting,
		with.session, with.expected, with.expires,
		"by", r.By, "comment", r.Comment, "remember", r.Remember.String(), "answer_seal", with.seal)
	if err != nil {
		return approvals.Record{}, false, err
	}
	what := textAt(said, 0)
	if what == "unknown" {
		return approvals.Record{}, false, approvals.ErrUnknown
	}
	if len(said) != 2 {
		return approvals.Record{}, false, errApprovals
	}
	record, err := a.record(tenant, said[1])
	if err == nil && what == "sessionless" {
		err = approvals.ErrNoSession
	}
	return record, what == "answered", err
}

// Get implements approvals.Desk.
func (a *ApprovalStore) Get(ctx context.Context, tenant, id string) (approvals.Record, error) {
	said, err := a.ask(ctx, getScript, tenant, id)
	if err != nil {
		return approvals.Record{}, err
	}
	if len(said) == 0 {
		return approvals.Record{}, approvals.ErrUnknown
	}
	f := pairs(said[0])
	if !a.signed(tenant, id, f) {
		return approvals.Record{}, approvals.ErrUnknown
	}
	return a.recordOf(tenant, f)
}

// State implements approvals.Desk.
func (a *ApprovalStore) State(ctx context.Context, tenant, id string) (approvals.State, time.Duration, error) {
	said, err := a.ask(ctx, stateScript, tenant, id)
	if err != nil {
		return 0, 0, err
	}
	if len(said) != 2 {
		return 0, 0, approvals.ErrUnknown
	}
	state, _ := approvals.ParseState(textAt(said, 0))
	left, _ := said[1].(int64)
	return state, time.Duration(left) * time.Millisecond, nil
}

// Pending returns a tenant's backlog of pending approvals. Approvals that are found expired are recorded.
func (a *ApprovalStore) Pending(ctx context.Context, tenant string) (p approvals.Backlog, err error) {
	said, err := a.ask(ctx, pendingScript, tenant)
	if err != nil {
		return p, err
	}
	n, ok := int64(0), false
	if len(said) == 2 {
		n, ok = said[0].(int64)
	}
	if !ok {
		return p, errApprovals
	}
	if p.Count = int(n); n > 0 && !readTime(&p.Oldest, textAt(said, 1)) {
		return p, errApprovals
	}
	return p, nil
}

// Watch implements approvals.Store.
func (a *ApprovalStore) Watch(ctx context.Context, told func(approvals.Notification), connected func()) {
	channel := a.channel("approvals")
	a.subscribe(ctx, channel, func(message string) {
		all, ok := parseWords(message, 4)
		if !ok {
			a.malformed(channel)
			return
		}
		n := approvals.Notification{Tenant: all[0], ID: all[1], Kind: approvals.Kind(all[2])}
		if all[3] != "" {
			n.Session = new(approvals.Sum)
			if !unhex(n.Session[:], all[3]) {
				a.malformed(channel)
				connected() // something is not known any more
				return
			}
		}
		told(n)
	}, connected)
}

// textAt returns a string of a script's answer, or "".
func textAt(said []any, i int) string {
	if i >= len(said) {
		return ""
	}
	text, _ := said[i].(string)
	return text
}

func unhex(to []byte, text string) bool {
	if hex.DecodedLen(len(text)) != len(to) {
		return false
	}
	_, err := hex.Decode(to, []byte(strings.ToLower(text)))
	return err == nil
}

var _ approvals.Store = (*ApprovalStore)(nil)
