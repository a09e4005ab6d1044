package approvals_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/storetest"
)

// memory is a store of one replica, for tests of behavior that does not depend on the store. The zero value is ready to
// use.
type memory struct {
	mu          sync.Mutex
	records     map[string]approvals.Record
	tokens      map[string]map[string]string // of answers, by approval and person
	events      []approvals.RecordEvent
	unavailable bool
	questions   int // queries for states
	told        func(approvals.Notification)
	following   chan struct{} // closed when told is set
	past        memoryPast
}

var errUnavailable = errors.New("unavailable")

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() approvals.Store { return &memory{} })
}

func (m *memory) enter() (leave func(), err error) {
	m.mu.Lock()
	if m.unavailable {
		err = errUnavailable
	}
	return m.mu.Unlock, err
}

func (m *memory) leave(unavailable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unavailable = unavailable
}

// put changes a record without a notification, as a store does by itself.
func (m *memory) put(id string, change func(*approvals.Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[id]
	change(&r)
	m.records[id] = r
}

func (m *memory) Create(_ context.Context, d *approvals.Draft) (approvals.CreateResult, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return approvals.CreateResult{}, err
	}
	if m.records == nil {
		m.records, m.tokens = map[string]approvals.Record{}, map[string]map[string]string{}
	}
	d.State = approvals.Pending
	m.records[d.ID] = d.Record
	m.past.created(d)
	return approvals.CreateResult{Record: d.Record, New: true}, nil
}

func (m *memory) Redeem(context.Context, *approvals.Binding, string, string) (approvals.State, string, error) {
	leave, err := m.enter()
	defer leave()
	return approvals.Approved, "", err
}

func (m *memory) Release(context.Context, string, string, string) (bool, error) {
	leave, err := m.enter()
	defer leave()
	return true, err
}

func (m *memory) find(id string, err error) (approvals.Record, error) {
	r, ok := m.records[id]
	if ok && r.State == approvals.Pending && m.past.expired(&r) {
		r.State = approvals.Expired
		m.records[id] = r
	}
	if err == nil && !ok {
		err = approvals.ErrUnknown
	}
	return r, err
}

func (m *memory) Get(_ context.Context, _, id string) (approvals.Record, error) {
	leave, err := m.enter()
	defer leave()
	return m.find(id, err)
}

func (m *memory) State(_ context.Context, _, id string) (approvals.State, time.Duration, error) {
	leave, err := m.enter()
	defer leave()
	m.questions++
	r, err := m.find(id, err)
	return r.State, time.Hour, err
}

// List sorts only in the order Expires.
func (m *memory) List(_ context.Context, _ string, f approvals.Filter, after string, most int) (
	page []approvals.Record, next string, err error) {
	leave, err := m.enter()
	defer leave()
	if f.Order == approvals.Expires {
		return m.expiring(f.State, after, most)
	}
	for _, r := range m.records {
		page = append(page, r)
	}
	return page, "", err
}

func (m *memory) Due(context.Context, string) ([]approvals.Record, time.Duration, error) {
	return nil, -1, nil
}

func (m *memory) Escalate(context.Context, string, string) (bool, error) { return false, nil }

func (m *memory) Postpone(context.Context, string, string, time.Duration) error { return nil }

func (m *memory) Answer(_ context.Context, _, id string, reply *approvals.StoredAnswer) (approvals.Record,
	approvals.AnswerResult, error) {
	leave, err := m.enter()
	defer leave()
	r, err := m.find(id, err)
	by := reply.Given.Person
	again := err == nil && m.tokens[id][by] == reply.Token
	switch {
	case err != nil || r.State != approvals.Pending && !again:
		return r, approvals.AnswerLate, err
	case r.State != approvals.Pending:
		return r, approvals.AnswerGiven, nil
	case again:
		return r, approvals.AnswerRecorded, nil
	}
	if reply.Given.State != 0 {
		r.Answers = append(slices.Clone(r.Answers), reply.Given)
		if m.tokens[id] == nil {
			m.tokens[id] = map[string]string{}
		}
		m.tokens[id][by] = reply.Token
	}
	if reply.More {
		m.records[id] = r
		return r, approvals.AnswerRecorded, nil
	}
	r.State, r.By, r.Comment, r.Remember, r.Answered = reply.State, reply.By, reply.Comment, reply.Remember, time.Now()
	m.records[id] = r
	m.past.ended(&r, map[approvals.State]approvals.Outcome{approvals.Approved: approvals.PastApproved,
		approvals.Denied: approvals.PastDenied}[r.State], reply.Names)
	if m.told != nil {
		m.told(approvals.Notification{Tenant: r.Tenant, ID: id, Kind: approvals.EventApproved})
	}
	return r, approvals.AnswerGiven, nil
}

func (m *memory) Withdraw(_ context.Context, _, id string) error {
	leave, err := m.enter()
	defer leave()
	if r := m.records[id]; err == nil && r.State == approvals.Pending {
		r.State = approvals.Expired
		m.records[id] = r
		m.past.ended(&r, approvals.PastWithdrawn, nil)
	}
	return err
}

func (m *memory) Events(_ context.Context, _, after string, _ int) ([]approvals.RecordEvent, string, error) {
	leave, err := m.enter()
	defer leave()
	for i, e := range m.events {
		if err == nil && e.ID > after {
			return m.events[i : i+1], e.ID, err
		}
	}
	return nil, after, err
}

func (m *memory) Watch(ctx context.Context, told func(approvals.Notification), connected func()) {
	m.mu.Lock()
	m.told = told
	m.mu.Unlock()
	connected()
	if m.following != nil {
		close(m.following)
	}
	<-ctx.Done()
}

func (m *memory) Expired() int64 { return 0 }

// asked returns the number of queries for a state.
func (m *memory) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.questions
}

func newKeeper(t testing.TB, s approvals.Store, o approvals.Options) *approvals.Service {
	t.Helper()
	k, err := approvals.New(s, o)
	check.Must(t, err)
	return k
}

func request(args string) *approvals.Request {
	return &approvals.Request{
		Tenant: "acme", User: "ann", Agent: "bot", Capability: "mail", Tool: "send", Args: []byte(args),
	}
}

func ask(t testing.TB, k *approvals.Service, r *approvals.Request) approvals.Approval {
	t.Helper()
	a, granted, refusal := k.Create(t.Context(), r)
	if refusal != nil || granted {
		t.Fatalf("asked: %v, granted %v", refusal, granted)
	}
	return a
}

// reason returns the reason of a refusal, or "".
func reason(err error) string {
	var r *call.Refusal
	if errors.As(err, &r) && r != nil {
		return r.Reason
	}
	return ""
}

var _ approvals.Store = (*memory)(nil)
