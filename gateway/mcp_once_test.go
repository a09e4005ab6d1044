package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/extauthz"
)

// countingShield allows all calls and counts its checks.
type countingShield struct{ asked atomic.Int64 }

func (*countingShield) For(string) bool { return true }

func (s *countingShield) Check(context.Context, *call.Call, []byte) (extauthz.Answer, *call.Refusal) {
	s.asked.Add(1)
	return extauthz.Answer{Verdict: call.Allow}, nil
}

// countedReplicas are gateways whose calls are counted. Each request of a client goes to the next replica.
type countedReplicas struct {
	*desk
	http.RoundTripper
	all        []*mcpFront
	logs       []*audit.Log
	paths      []string
	limits     []*ratelimit.Limiter
	budgets    ratelimit.Budgets
	shield     countingShield
	credential string
	turns      atomic.Int64
}

// startCounted runs n replicas whose calls wait for the given time for approval.
func startCounted(t *testing.T, n int, wait time.Duration) *countedReplicas {
	t.Helper()
	r := &countedReplicas{desk: openDesk(t)}
	ring, self, store := newKeyring(), true, gatewaytest.OpenStore(t, "embedded")
	r.budgets = store.Limits("none of them")
	r.SetPublicURL("https://capgate.example.com")
	r.SetAnswerRules([]approvals.AnswerRule{{Tenant: policy.Any, Capability: policy.Any, Tool: policy.Any,
		Self: &self}})
	ring.issue("self", tenant.Default, tenant.Invoke|tenant.Read|tenant.Approve,
		func(k *tenant.Key) { k.Asserts = tenant.User })
	r.credential = ring.credentials["self"]
	for i := range n {
		path := filepath.Join(t.TempDir(), "audit.log")
		log, err := audit.Open(audit.Config{Path: path, Required: true})
		check.Must(t, err)
		check.Cleanup(t, log.Close)
		limits := ratelimit.New(ratelimit.Config{Store: store.Limits(fmt.Sprint("replica ", i))})
		limits.Single(&tenant.Settings{ID: tenant.Default,
			Limits: tenant.Limits{Bounds: tenant.Bounds{PerMonth: 1000}}})
		stored, err := idempotency.New(outsideStore{Store: store.Idempotency()},
			idempotency.Options{Keys: [][]byte{make([]byte, aead.KeyBytes)}})
		check.Must(t, err)
		check.Cleanup(t, stored.Close)
		r.logs, r.paths, r.limits = append(r.logs, log), append(r.paths, path), append(r.limits, limits)
		r.all = append(r.all, startMCP(t, askingMCP(r.desk, wait), func(o *gatewaytest.Options) {
			o.Authenticator, o.Audit, o.Limits, o.Shield = ring.authenticator(), log, limits, &r.shield
			o.Answers, o.MCP.Approvals, o.MCP.Beat = stored, r.desk, time.Millisecond
			o.MCP.Cancel = func(_ context.Context, request string) error {
				for _, f := range r.all {
					f.gateway.CancelMCP(request)
				}
				return nil
			}
			answers := approval.New(approval.Config{Approvals: r.desk,
				Log: slog.New(slog.DiscardHandler)})
			o.Leaving, o.Services = answers.Leave, func(g grpc.ServiceRegistrar) { answers.Register(g) }
		}))
	}
	r.RoundTripper = clienttest.Bound(r.all[0].gateway.HTTP1(t).Transport)
	return r
}

// RoundTrip sends a request to the next replica.
func (r *countedReplicas) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.Host = r.all[r.turns.Add(1)%int64(len(r.all))].gateway.Addr
	q.Host = q.URL.Host
	q.Header.Set("X-Api-Key", r.credential)
	q.Header.Set("X-User-Id", "ann")
	return r.RoundTripper.RoundTrip(q)
}

func (r *countedReplicas) session(t *testing.T, revision string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: r.all[0].gateway.URL(mcp.Path), HTTPClient: &http.Client{Transport: r},
			MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	check.Must(t, err)
	check.Cleanup(t, func() { _ = s.Close() })
	return s
}

// rpc sends a message of a client that supports tasks.
func (r *countedReplicas) rpc(t *testing.T, method, name, params string) (answer taskAnswer) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.all[0].gateway.URL(mcp.Path),
		strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+taskMeta+`,`+params+`}}`))
	check.Must(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Method": method,
		"Mcp-Name": name, "Accept": "application/json", "Mcp-Protocol-Version": "2026-07-28"} {
		q.Header.Set(name, value)
	}
	resp, err := r.RoundTrip(q)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	check.Must(t, json.NewDecoder(resp.Body).Decode(&answer))
	return answer
}

// counts returns what the calls took: the approvals of their records in the audit log, lines of the access log
// and tokens of a limit. It stops the replicas as soon as they have want of all.
func (r *countedReplicas) counts(t *testing.T, wantLines, wantTokens int) (records []string, lines, tokens int) {
	t.Helper()
	for _, of := range []struct {
		n     *int
		want  int
		count func(*testing.T) int
	}{{&lines, wantLines, r.lines}, {&tokens, wantTokens, r.tokens}} {
		check.Until(t, fmt.Sprintf("%d calls, %d tokens", wantLines, wantTokens), func() (bool, string) {
			*of.n = of.count(t)
			return *of.n == of.want, fmt.Sprint(*of.n)
		})
	}
	for i, f := range r.all {
		f.gateway.Stop(t)
		r.logs[i].Close()
		records = append(records, recordsOfCalls(t, r.paths[i])...)
	}
	return records, r.lines(t), tokens
}

// tokens returns how many of their leased tokens of the limit the replicas have used.
func (r *countedReplicas) tokens(t *testing.T) int {
	t.Helper()
	spent, err := r.budgets.Spent(t.Context(), ratelimit.Owner{ID: tenant.Default}, []ratelimit.Name{{}})
	check.Must(t, err)
	n := spent[0].Month
	for _, l := range r.limits {
		u, err := l.UsageOf(t.Context(), nil)
		check.Must(t, err)
		n -= u.Limits[0].Held
	}
	return int(n)
}

// isInvoke reports whether a record is that of a tool call. Other requests of MCP may have records too.
func isInvoke(method string) bool { return strings.HasSuffix(method, "Invoke") }

// lines returns the number of access log lines for calls.
func (r *countedReplicas) lines(t *testing.T) (n int) {
	t.Helper()
	for _, f := range r.all {
		for _, line := range f.gateway.Log.Calls(t, 0) {
			if isInvoke(line.Text("method")) {
				n++
			}
		}
	}
	return n
}

// recordsOfCalls returns the approval of each record of a call in an audit log.
func recordsOfCalls(t *testing.T, path string) (approvals []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	check.Must(t, err)
	for line := range strings.Lines(string(text)) {
		var rec struct{ Type, Method, Approval string }
		check.Must(t, json.Unmarshal([]byte(line), &rec))
		if rec.Type == "call" && isInvoke(rec.Method) {
			approvals = append(approvals, rec.Approval)
		}
	}
	return approvals
}

// given says how the approval of a call ends.
type given string

const (
	byApproval  given = "approved"
	byDenial    given = "denied"
	byNobody    given = "unanswered"
	byItsClient given = "cancelled by its client"
	inItsClient given = "declined in its client"
)

// answer answers an approval as a person.
func (r *countedReplicas) answer(t *testing.T, id string, how given) {
	t.Helper()
	var err error
	switch how {
	case byApproval:
		_, err = r.Approve(t.Context(), tenant.Default, id, approvals.Answer{By: "eve"})
	case byDenial:
		_, err = r.Deny(t.Context(), tenant.Default, id, approvals.Answer{By: "eve"})
	case byNobody, byItsClient, inItsClient:
	}
	check.Must(t, err)
}

// TestMCPCallsCountOnce: a tools/call that requires approval is one call, however its client learns of that and however
// it ends: it has one record in the audit log and one line in the access log, and takes one token of a limit. The
// Shield is called once before the approval, and again when a waiting call gets its answer, as for a new call; while
// its verdict is valid, it comes from the cache. A client that repeats the call with the gateway's state, or polls its
// task, makes a call with its own record, which has the first call's approval. If it redeems the approval, no second
// token is taken.
func TestMCPCallsCountOnce(t *testing.T) {
	t.Parallel()
	type count struct{ calls, tokens, questions int }
	waits, once, again, approved := count{1, 1, 2}, count{1, 1, 1}, count{2, 2, 2}, count{2, 1, 2}
	for name, want := range map[string]map[given]count{
		"held":                              {byApproval: waits, byDenial: waits, byNobody: once, byItsClient: once},
		"progress":                          {byApproval: waits, byDenial: waits, byNobody: once, byItsClient: once},
		"form on the stream":                {byApproval: waits, byDenial: waits, byNobody: once, byItsClient: once},
		"form on the stream, with progress": {byApproval: waits, byDenial: waits, byNobody: once, byItsClient: once},
		"form":                              {byApproval: approved, inItsClient: once},
		"URL": {byApproval: approved, byDenial: again, byNobody: again,
			inItsClient: once},
		"URL, before 2026-07-28": {byApproval: count{2, 1, 3}, byDenial: again, byNobody: again},
		"JSON, of no MCP client": {byApproval: approved, byDenial: again, byNobody: again},
		"task":                   {byApproval: approved, byDenial: again, byNobody: once, byItsClient: once},
	} {
		for how, want := range want {
			for _, replicas := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s, %s, %d replicas", name, how, replicas), func(t *testing.T) {
					t.Parallel()
					wait := check.Patience
					if how == byNobody {
						wait = 10 * time.Millisecond
					}
					r := startCounted(t, replicas, wait)
					if err := countedWays[name](t, r, how); (err == nil) != (how == byApproval) {
						t.Errorf("the call: %v", err)
					}
					questions := int(r.shield.asked.Load())
					if ran := calls(r.all); ran > 1 || (ran == 1) != (how == byApproval) {
						t.Errorf("the call ran %d times", ran)
					}
					records, lines, tokens := r.counts(t, want.calls, want.tokens)
					if len(records) != want.calls || lines != want.calls || tokens != want.tokens ||
						questions != want.questions {
						t.Errorf("%d records, %d lines, %d tokens, %d checks; want %+v", len(records), lines, tokens,
							questions, want)
					}
					if ids := slices.Compact(records); how == byApproval && (len(ids) != 1 || ids[0] == "") {
						t.Errorf("records of the approvals %q, want one", ids)
					}
				})
			}
		}
	}
}
