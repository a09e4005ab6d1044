package owncalls_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/builtin/owncalls"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// log is an owncalls.Log that counts how often it is read.
type log struct {
	calls []recent.Call
	off   bool
	reads int
}

func (l *log) On() bool { return !l.off }

func (l *log) Calls(context.Context) ([]recent.Call, bool) {
	l.reads++
	return l.calls, l.reads > 1
}

// valid is the tenant.Validity of a token.
type valid struct{}

func (valid) StillValid(context.Context) bool { return true }

func of(name, tenant, key, user, agent string) recent.Call {
	return recent.Call{Ended: time.Unix(1, 0), Summary: telemetry.Summary{RequestID: name, Tenant: tenant, Key: key,
		User: user, Agent: agent, Code: "OK", Backend: "10.0.0.1:1"}}
}

// names returns the request ids of the calls that a caller sees.
func names(t *testing.T, s *owncalls.Server, identity tenant.Identity, size int32) string {
	t.Helper()
	resp, err := s.ListOwnCalls(tenant.NewContext(t.Context(), identity),
		&capgatepb.ListOwnCallsRequest{PageSize: size})
	check.Must(t, err)
	var all []string
	for _, c := range resp.GetCalls() {
		all = append(all, c.GetRequestId())
	}
	return strings.Join(all, " ")
}

// TestOwn: a caller sees the calls of its credential, user and agent, and no others.
func TestOwn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128) // as it is cut, of a longer name
	s := owncalls.New(&log{calls: []recent.Call{
		of("plain", "acme", "k1", "", ""), of("ann", "acme", "k1", "ann", ""),
		of("ann-bot", "acme", "k1", "ann", "bot"),
		of("k2", "acme", "k2", "ann", ""), of("globex", "globex", "k1", "ann", ""), of("open", "acme", "", "", ""),
		of("open-ann", "acme", "", "ann", ""), of("refused", "", "", "", ""), of("long", "acme", "k1", long, ""),
		of("issuer", "acme", "corp", "ann", ""), of("nobody", "acme", "corp", "", ""),
	}}, nil)
	for want, identity := range map[string]tenant.Identity{
		"plain ann ann-bot long": {Tenant: "acme", Key: "k1"},
		"ann":                    {Tenant: "acme", Key: "k1", User: "ann"},
		"ann-bot":                {Tenant: "acme", Key: "k1", User: "ann", Agent: "bot"},
		"k2":                     {Tenant: "acme", Key: "k2"},
		"globex":                 {Tenant: "globex", Key: "k1"},
		"open":                   {Tenant: "acme"},
		"open-ann":               {Tenant: "acme", User: "ann"},
		"issuer":                 {Tenant: "acme", Key: "corp", User: "ann", Validity: valid{}},
		"nobody":                 {Tenant: "acme", Key: "corp", Validity: valid{}},
		"":                       {Tenant: "acme", Key: "k1", User: long},
	} {
		if got := names(t, s, identity, 0); got != want {
			t.Errorf("%+v sees %q, want %q", identity, got, want)
		}
	}
}

// TestOwnCallsOfAListener: a listener of one capability shows the calls of that capability, and those without a
// capability that arrived at the listener.
func TestOwnCallsOfAListener(t *testing.T) {
	t.Parallel()
	at := func(name, capability, listener string) recent.Call {
		c := of(name, "acme", "", "", "")
		c.Capability, c.Listener = capability, listener
		return c
	}
	s := owncalls.New(&log{calls: []recent.Call{at("weather", "weather", "/a.sock"), at("mail", "mail", "/b.sock"),
		at("garbage", "", "/a.sock"), at("other-garbage", "", "/b.sock"), at("public", "weather", "")}}, nil)
	caller := tenant.Identity{Tenant: "acme", At: &tenant.Listener{Name: "/a.sock", Capability: "weather"}}
	if got := names(t, s, caller, 0); got != "weather garbage public" {
		t.Errorf("the caller sees %q", got)
	}
	caller.At = &tenant.Listener{Name: "/c.sock"}
	if got := names(t, s, caller, 0); got != "weather mail garbage other-garbage public" {
		t.Errorf("at a listener of all capabilities the caller sees %q", got)
	}
}

// TestListIsReadOnceASecond: many requests cost one read of the log.
func TestListIsReadOnceASecond(t *testing.T) {
	t.Parallel()
	now, l := time.Unix(1000, 0), &log{}
	for i := range 150 {
		l.calls = append(l.calls, of(fmt.Sprint(i), "acme", "k1", "", ""))
	}
	s := owncalls.New(l, func() time.Time { return now })
	identity := tenant.Identity{Tenant: "acme", Key: "k1"}
	for size, want := range map[int32]int{0: 20, 3: 3, 100: 100} {
		if got := len(strings.Fields(names(t, s, identity, size))); got != want {
			t.Errorf("%d calls for a page of %d", got, size)
		}
	}
	if l.reads != 1 {
		t.Errorf("the log was read %d times", l.reads)
	}
	now = now.Add(time.Second)
	resp, err := s.ListOwnCalls(tenant.NewContext(t.Context(), identity), &capgatepb.ListOwnCallsRequest{})
	if err != nil || l.reads != 2 || !resp.GetPartial() {
		t.Errorf("%d reads, %v, %v", l.reads, resp.GetPartial(), err)
	}
}

// TestRefusals: a size out of range, and a gateway that keeps no calls.
func TestRefusals(t *testing.T) {
	t.Parallel()
	ctx := tenant.NewContext(t.Context(), tenant.Identity{Tenant: "acme"})
	for size, off := range map[int32]bool{-1: false, 101: false, 1: true} {
		_, err := owncalls.New(&log{off: off}, nil).ListOwnCalls(ctx, &capgatepb.ListOwnCallsRequest{PageSize: size})
		if err == nil || off != strings.Contains(err.Error(), "calls.keep") {
			t.Errorf("%d: %v", size, err)
		}
	}
}
