package session_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/session/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
)

// store is a shared store in memory, which may be away.
type store struct {
	mu      sync.Mutex
	away    error
	frozen  error // of writes
	epoch   string
	key     []byte
	revoked []session.Revocation
	records []session.Record
}

func (s *store) SharedSecret(_ context.Context, proposal []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		s.key = bytes.Clone(proposal)
	}
	return s.key, s.away
}

func (s *store) Revoke(_ context.Context, all []session.Revocation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.away, s.frozen); err != nil {
		return err
	}
	s.revoked = append(s.revoked, all...)
	s.records = slices.DeleteFunc(s.records, func(r session.Record) bool {
		return slices.ContainsFunc(all, func(v session.Revocation) bool { return v.Session == r.ID })
	})
	return nil
}

func (s *store) Revoked(_ context.Context, at changefeed.Position) (changefeed.Position, []session.Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := changefeed.Position{Epoch: "1" + s.epoch, Version: uint64(len(s.revoked))}
	if at.Epoch != now.Epoch || at.Version > now.Version {
		at.Version = 0
	}
	return now, slices.Clone(s.revoked[at.Version:]), s.away
}

// lose empties the store.
func (s *store) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.key, s.revoked, s.records = s.epoch+"1", nil, nil, nil
}

// failOver loses the last revocation, like a failover before its replication.
func (s *store) failOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = s.revoked[:len(s.revoked)-1]
}

func (s *store) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

func (s *store) Add(_ context.Context, r session.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Expires.After(time.Now()) {
		s.records = slices.Insert(s.records, 0, r)
	}
	return s.away
}

func (s *store) List(context.Context) ([]session.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records), s.away
}

func (s *store) set(away error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func TestTheFakeKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() session.Store { return &store{} })
}

// replicaOf returns the manager of a replica that shares the store.
func replicaOf(s *store, c *clocktest.Clock) *session.Manager {
	return session.New(s, session.Options{Now: c.Now, Keys: sharedkey.New(s, c.Now).Keys("sessions")})
}

func start() (*session.Manager, *store, *clocktest.Clock) {
	s, c := &store{}, clocktest.New(time.Now())
	return replicaOf(s, c), s, c
}

func ann() *session.Session {
	return &session.Session{Via: session.ViaPerson, User: "ann", Issuer: "corp", Groups: []string{"ops"}}
}

func issue(t *testing.T, m *session.Manager, s *session.Session) string {
	t.Helper()
	cookie, refusal := m.Issue(t.Context(), session.Admin, s)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return cookie
}

func opens(t *testing.T, m *session.Manager, cookie string) string {
	t.Helper()
	s, refusal := m.Open(t.Context(), session.Admin, cookie)
	if refusal != nil {
		return refusal.Reason
	}
	if s.User != "ann" || !slices.Equal(s.Groups, []string{"ops"}) {
		t.Errorf("%+v", s)
	}
	return ""
}

// TestTampering: a cookie opens as it was issued, for its kind, and not with any other byte.
func TestTampering(t *testing.T) {
	t.Parallel()
	m, _, _ := start()
	cookie := issue(t, m, ann())
	if why := opens(t, m, cookie); why != "" {
		t.Fatal(why)
	}
	if strings.Contains(cookie, "ann") || cookie == issue(t, m, ann()) {
		t.Errorf("a cookie shows its content; cookie %+v", cookie)
	}
	if _, refusal := m.Open(t.Context(), session.Inbox, cookie); refusal == nil {
		t.Error("a session of the admin port opens as one of the inbox")
	}
	if m.Unseal(t.Context(), "login admin", cookie, &struct{}{}) == nil {
		t.Error("a session opens for another purpose")
	}
	raw, _ := base64.RawURLEncoding.DecodeString(cookie)
	for n := range raw {
		altered := bytes.Clone(raw)
		altered[n] ^= 1
		if opens(t, m, base64.RawURLEncoding.EncodeToString(altered)) != "SESSION_INVALID" {
			t.Errorf("byte %d may change", n)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a part": cookie[:len(cookie)-4], "padded": cookie + "=", "two": cookie + cookie,
		"a line break": cookie[:8] + "\n" + cookie[8:], "huge": strings.Repeat("A", 1<<20),
		"zeros": strings.Repeat("A", 200),
	} {
		if opens(t, m, text) != "SESSION_INVALID" {
			t.Errorf("%s opens", name)
		}
	}
}

// TestSessionsEndAtAllReplicas: a session ends by its time, by its revocation, and by that of its person, at all
// replicas.
func TestSessionsEndAtAllReplicas(t *testing.T) {
	t.Parallel()
	m, s, c := start()
	other := replicaOf(s, c)
	m.SetTTL(time.Hour)
	first, second, third := ann(), ann(), ann()
	one, two := issue(t, m, first), issue(t, m, second)
	if a, b := opens(t, other, one), opens(t, other, two); a != "" || b != "" {
		t.Fatalf("another replica does not open the sessions: %q, %q", a, b)
	}
	if refusal := m.End(t.Context(), first.ID, first.Expires); refusal != nil {
		t.Fatal(refusal)
	}
	other.Read(t.Context())
	if here, there := opens(t, m, one), opens(t, other, one); here != "SESSION_INVALID" || there != here {
		t.Errorf("the first session should have ended: %q, at another replica %q", here, there)
	}
	if got := opens(t, other, two); got != "" {
		t.Errorf("the second session should go on: %q", got)
	}
	c.Add(time.Minute)
	if refusal := other.EndAll(t.Context(), second.Name()); refusal != nil {
		t.Fatal(refusal)
	}
	c.Add(time.Millisecond)
	three := issue(t, m, third)
	m.Read(t.Context())
	if before, later := opens(t, m, two), opens(t, m, three); before != "SESSION_INVALID" || later != "" {
		t.Errorf("the sessions of before should have ended, and no later one: %q, %q", before, later)
	}
	c.Add(time.Hour)
	if opens(t, m, three) != "SESSION_INVALID" {
		t.Error("an expired session opens")
	}
}

// TestSessionsGoOnWithoutTheStore: without the store, sessions go on, and revocations fail plainly, with effect at the
// replica alone.
func TestSessionsGoOnWithoutTheStore(t *testing.T) {
	t.Parallel()
	m, s, c := start()
	one := ann()
	cookie := issue(t, m, one)
	s.set(errors.New("away"))
	c.Add(2 * time.Minute) // the key is asked for again
	if why := opens(t, m, cookie); why != "" {
		t.Error(why)
	}
	if refusal := m.End(t.Context(), one.ID, time.Time{}); refusal == nil || refusal.Reason != "SESSIONS_UNAVAILABLE" {
		t.Error(refusal)
	}
	if opens(t, m, cookie) != "SESSION_INVALID" {
		t.Error("the session goes on at its own replica")
	}
	fresh := replicaOf(s, c)
	if _, refusal := fresh.Issue(t.Context(), session.Admin, ann()); refusal == nil ||
		refusal.Reason != "SESSIONS_UNAVAILABLE" {
		t.Error("without any key a session is issued", refusal)
	}
}

// TestFormerKeyOpensUntilItIsGone: a new key seals, the former one opens while the file has it.
func TestFormerKeyOpensUntilItIsGone(t *testing.T) {
	t.Parallel()
	secret := sharedkey.New(nil, nil)
	m := session.New(&store{}, session.Options{Keys: secret.Keys("sessions")})
	first, second := bytes.Repeat([]byte{1}, sharedkey.Bytes), bytes.Repeat([]byte{2}, sharedkey.Bytes)
	configure := func(secrets ...[]byte) { secret.Replace(secrets) }
	configure(first)
	old := issue(t, m, ann())
	configure(second, first)
	fresh := issue(t, m, ann())
	if a, b := opens(t, m, old), opens(t, m, fresh); a != "" || b != "" {
		t.Errorf("both should open: %q, %q", a, b)
	}
	configure(second)
	if a, b := opens(t, m, old), opens(t, m, fresh); a != "SESSION_INVALID" || b != "" {
		t.Errorf("the former key should be gone, and it alone: %q, %q", a, b)
	}
}

// TestFollow: what lasts ends when its check fails, after a revocation and without one.
func TestFollow(t *testing.T) {
	t.Parallel()
	m, _, _ := start()
	one, two := ann(), ann()
	issue(t, m, one)
	issue(t, m, two)
	revoked, stop := m.Follow(t.Context(), func(context.Context) bool { return m.Valid(one) })
	defer stop()
	lasting, stop2 := m.Follow(t.Context(), func(context.Context) bool { return m.Valid(two) })
	defer stop2()
	refused, stop3 := m.Follow(t.Context(), func(context.Context) bool { return false })
	defer stop3()
	_ = m.End(t.Context(), one.ID, time.Time{})
	for _, ctx := range []context.Context{revoked, refused} {
		check.Received(t, ctx.Done(), "the end of what follows a session")
	}
	if lasting.Err() != nil {
		t.Error("another session has ended")
	}
}

// TestGroups: the groups that the configuration names are kept first.
func TestGroups(t *testing.T) {
	t.Parallel()
	all := []string{strings.Repeat("x", 5000)}
	for range 200 {
		all = append(all, "0123456789abcdef0123456789abcdef0123")
	}
	all = append(all, "platform")
	kept := session.KeepGroups(all, func(g string) bool { return g == "platform" })
	if len(kept) < 30 || kept[0] != "platform" {
		t.Errorf("%d groups: %.100q", len(kept), kept)
	}
	m, _, _ := start()
	s := ann()
	s.Groups, s.User = kept, strings.Repeat("ü", 128)
	if cookie, refusal := m.Issue(t.Context(), session.Admin, s); refusal != nil || len(cookie) > session.MaxCookie {
		t.Errorf("%d bytes, %v", len(cookie), refusal)
	}
}

// TestAttempts: a client has 30 attempts at once and one more every three seconds, however long it made none.
func TestAttempts(t *testing.T) {
	t.Parallel()
	c := clocktest.New(time.Now())
	l := session.NewLimiter(c.Now)
	for _, test := range []struct {
		pause time.Duration
		want  int
	}{{0, 30}, {3 * time.Second, 1}, {2 * time.Second, 0}, {5 * time.Second, 2}, {day, 30}} {
		c.Add(test.pause)
		n := 0
		for l.Attempt("10.0.0.1") == nil {
			if n++; n > 1000 {
				t.Fatal("there is no bound")
			}
		}
		if n != test.want {
			t.Errorf("%d attempts after %v, want %d", n, test.pause, test.want)
		}
	}
}

// TestAttemptsOfAllNetworks: clients of ever new networks have 10,500 attempts at once, and 120 more a second.
func TestAttemptsOfAllNetworks(t *testing.T) {
	t.Parallel()
	c := clocktest.New(time.Now())
	l, network := session.NewLimiter(c.Now), 0
	for _, want := range []int{10_500, 120} {
		n := 0
		for ; n <= 2*want; n++ {
			network++
			if l.Attempt(strconv.Itoa(network)) != nil {
				break
			}
		}
		if n != want {
			t.Errorf("%d attempts, want %d", n, want)
		}
		c.Add(time.Second)
	}
}

// TestLimiter: a client has a number of attempts, and others have theirs.
func TestLimiter(t *testing.T) {
	t.Parallel()
	c := clocktest.New(time.Now())
	l := session.NewLimiter(c.Now)
	n := 0
	for l.Attempt("10.0.0.1") == nil {
		if n++; n > 1000 {
			t.Fatal("there is no bound")
		}
	}
	if r := l.Attempt("10.0.0.1"); r.Reason != "SIGN_IN_LIMITED" || r.RetryAfter <= 0 {
		t.Errorf("%+v", r)
	}
	if l.Attempt("10.0.0.2") != nil {
		t.Error("another client is refused")
	}
	c.Add(10 * time.Second)
	if l.Attempt("10.0.0.1") != nil {
		t.Error("later it is still refused")
	}
	for n = range 1000 { // attempts of many networks
		for range 10 {
			_ = l.Attempt(strings.Repeat("y", n%7) + string(rune(n)))
		}
	}
	for n = 0; l.Attempt("10.0.0.9") == nil; n++ {
	}
	if n != 5 {
		t.Errorf("a network has %d attempts while others have used up those for all, want its first 5", n)
	}
}
