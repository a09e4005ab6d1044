package extauthz_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/extauthz"
)

// expectFailure judges with each on_failure. An invalid response never allows.
func expectFailure(t *testing.T, c extauthz.Config, malformed bool) {
	t.Helper()
	for _, onFailure := range []call.Verdict{call.Block, call.Ask, call.Allow} {
		c.OnFailure = onFailure
		var log logged
		s := judges(t, c, extauthz.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		a, refusal := s.Check(check.Context(t), forecast(), []byte(`{"token":"hunter2"}`))
		want := onFailure
		if malformed {
			want = min(want, call.Ask)
		}
		if a.Verdict != want || !a.Failed || a.Cached || a.Reason == "" {
			t.Errorf("on failure %v: %+v", onFailure, a)
		}
		if (refusal != nil) != (want == call.Block) {
			t.Errorf("on failure %v: %v", onFailure, refusal)
		} else if refusal != nil && (refusal.Kind != call.Unavailable || refusal.Reason != "SHIELD_UNAVAILABLE" ||
			refusal.RetryAfter <= 0) {
			t.Errorf("%+v", refusal)
		}
		for _, stats := range s.Each() {
			if stats.Malformed+stats.Unreachable != 1 || stats.Malformed == 1 != malformed {
				t.Errorf("counted %+v", stats)
			}
		}
		if text := log.String(); strings.Count(text, "level=WARN") != 1 || strings.Contains(text+a.Reason, "hunter2") {
			t.Errorf("logged %s", text)
		}
	}
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFailures: if a Shield quotes the action in its error, the log does not contain it.
func TestFailures(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		for name, test := range map[string]struct {
			answer    func(context.Context, question) (answer, error)
			timeout   time.Duration
			malformed bool
		}{
			"no decision": {func(context.Context, question) (answer, error) { return answer{}, nil }, 0, true},
			"unknown decision": {
				func(context.Context, question) (answer, error) { return answer{decision: "MAYBE"}, nil }, 0, true,
			},
			"too long": {func(context.Context, question) (answer, error) {
				return answer{decision: "ALLOW", reasoning: strings.Repeat("x", 64<<10)}, nil
			}, 0, true},
			"internal": {func(_ context.Context, q question) (answer, error) {
				return answer{}, status.Error(codes.Internal, q.args)
			}, 0, true},
			"exhausted": {func(_ context.Context, q question) (answer, error) {
				return answer{}, status.Error(codes.ResourceExhausted, q.args)
			}, 0, true},
			"unavailable": {func(_ context.Context, q question) (answer, error) {
				return answer{}, status.Error(codes.Unavailable, q.args)
			}, 0, false},
			"slow": {func(ctx context.Context, _ question) (answer, error) {
				<-ctx.Done()
				return answer{}, status.Error(codes.Unavailable, "it is too late")
			}, 30 * time.Millisecond, false},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := start(&server{answer: test.answer})
				if test.timeout > 0 {
					c.Timeout = test.timeout
				}
				expectFailure(t, c, test.malformed)
			})
		}
	})
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	addr := check.ClosedPort(t)
	expectFailure(t, extauthz.Config{Name: "main", Address: addr, Timeout: check.Patience}, false)
	expectFailure(t, extauthz.Config{
		Name: "main", URL: "http://" + addr + "/evaluate", Timeout: check.Patience,
	}, false)
}

// TestHostileHTTP: responses of an HTTP server that is not a Shield, or of an attacker that tries to get a call
// allowed.
func TestHostileHTTP(t *testing.T) {
	t.Parallel()
	const allowed = `{"decision":"ALLOW"}`
	for name, reply := range map[string]http.HandlerFunc{
		"empty":      func(http.ResponseWriter, *http.Request) {},
		"page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>ALLOW</html>") },
		"null":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "null") },
		"list":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "["+allowed+"]") },
		"number":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"decision":1}`) },
		"other case": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"Decision":"ALLOW"}`) },
		"lower case": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"decision":"allow"}`) },
		"two decisions": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"decision":"BLOCK","decision":"ALLOW"}`)
		},
		"two verdicts": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, allowed+allowed) },
		"a hidden one": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"verdict":`+allowed+`}`)
		},
		"status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, allowed)
		},
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/allowed", http.StatusTemporaryRedirect)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, allowed)
		},
		"long and true": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, allowed+strings.Repeat(" ", 64<<10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.HandleFunc("/evaluate", reply)
			mux.HandleFunc("/allowed", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, allowed)
			})
			hs := httptest.NewServer(mux)
			t.Cleanup(hs.Close)
			expectFailure(t, extauthz.Config{Name: "main", URL: hs.URL + "/evaluate", Timeout: check.Patience}, true)
		})
	}
}

// TestGarbage: a server that speaks neither protocol gives no verdict.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"text": "ALLOW ALLOW ALLOW\r\n\r\n", "zeros": strings.Repeat("\x00", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln := listen(t)
			t.Cleanup(func() { ln.Close() })
			go func() {
				for {
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer nc.Close()
						_, _ = io.WriteString(nc, text)
						_, _ = io.Copy(io.Discard, nc)
					}()
				}
			}()
			for _, c := range []extauthz.Config{
				{Address: ln.Addr().String()}, {URL: "http://" + ln.Addr().String() + "/evaluate"},
			} {
				c.Name, c.Timeout = "main", 200*time.Millisecond
				if a, refusal := judges(t, c, extauthz.Options{}).Check(check.Context(t), forecast(),
					nil); refusal == nil || !a.Failed {
					t.Errorf("%+v, %v", a, refusal)
				}
			}
		})
	}
}

// panicking is a client with a bug.
type panicking struct{ extauthz.Client }

func (panicking) Evaluate(context.Context, *extauthz.Action) (*extauthz.Reply, error) { panic("a bug") }

// TestClientThatPanics: a bug of the client does not count as an outage of the Shield, for which calls may be allowed.
func TestClientThatPanics(t *testing.T) {
	t.Parallel()
	s := extauthz.New(extauthz.Options{Dial: func(c *extauthz.Config) (extauthz.Client, error) {
		client, err := shield.Dial(c)
		return panicking{client}, err
	}})
	t.Cleanup(s.Close)
	c := serveGRPC(t, &server{}, nil)
	c.OnFailure = call.Allow
	check.Must(t, s.Replace([]extauthz.Config{c}, map[string]string{"weather": c.Name}))
	if a, refusal := s.Check(check.Context(t), forecast(), nil); refusal != nil || a.Verdict != call.Ask || !a.Failed {
		t.Errorf("%+v, %v", a, refusal)
	}
}

// TestOutageIsLoggedOnce: the log has one line when Shield is lost, and one when it responds again.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		var log logged
		srv := &server{answer: func(_ context.Context, q question) (answer, error) {
			if strings.Contains(q.args, "down") {
				return answer{}, status.Error(codes.Unavailable, "down")
			}
			return allow(), nil
		}}
		s := judges(t, start(srv), extauthz.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for _, args := range []string{`{"n":1}`, `{"down":1}`, `{"down":2}`, `{"down":3}`, `{"n":2}`, `{"n":3}`} {
			_, _ = s.Check(check.Context(t), forecast(), []byte(args))
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "shield=main") ||
			!strings.Contains(text, "answers again") {
			t.Error(text)
		}
	})
}
