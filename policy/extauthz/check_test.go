package extauthz_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/extauthz"
)

func TestDecisions(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		srv := &server{answer: func(_ context.Context, q question) (answer, error) {
			return answer{
				decision: strings.Trim(q.args[len(`{"say":`):], `"}`), reasoning: "as\nyou said", hash: "sha256:1",
			}, nil
		}}
		s := judges(t, start(srv), extauthz.Options{})
		for capability, want := range map[string]bool{"weather": true, "other": false} {
			if s.For(capability) != want {
				t.Errorf("calls of %s are judged: %t", capability, !want)
			}
		}
		for decision, want := range map[string]call.Verdict{"ALLOW": call.Allow, "ESCALATE": call.Ask,
			"BLOCK": call.Block} {
			a, refusal := s.Check(check.Context(t), forecast(), fmt.Appendf(nil, `{"say":%q}`, decision))
			if (a != extauthz.Answer{Verdict: want, Reason: "as you said", ActionHash: "sha256:1"}) {
				t.Errorf("%s: %+v", decision, a)
			}
			if blocked := refusal != nil; blocked != (want == call.Block) {
				t.Errorf("%s: %v", decision, refusal)
			} else if blocked && (refusal.Kind != call.PermissionDenied || refusal.Reason != "SHIELD_BLOCKED" ||
				strings.Contains(refusal.Message, "said")) {
				t.Errorf("%s: %+v", decision, refusal)
			}
		}
		if a, refusal := s.Check(check.Context(t), &call.Call{Capability: "other"}, nil); a.Verdict != call.Allow ||
			refusal != nil || len(srv.questions()) != 3 {
			t.Errorf("a call that nobody judges: %+v, %v; asked %d times", a, refusal, len(srv.questions()))
		}
	})
}

// TestWhatIsSent: only the tool and its arguments leave the gateway.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		srv := &server{answer: func(context.Context, question) (answer, error) { return allow(), nil }}
		s := judges(t, start(srv), extauthz.Options{})
		other := forecast()
		other.Tool = ""
		for _, c := range []struct {
			call             *call.Call
			args             string
			kind, tool, sent string
		}{
			{
				forecast(), `{"city":"Köln <&>","n":1e300}`, "get_forecast", "weather__Get_Forecast",
				`{"city":"Köln <&>","n":1e300}`,
			},
			{forecast(), "", "get_forecast", "weather__Get_Forecast", "{}"},
			{other, "{}", "tool_call", "weather__", "{}"},
		} {
			if a, refusal := s.Check(check.Context(t), c.call, []byte(c.args)); a.Verdict != call.Allow ||
				refusal != nil {
				t.Fatalf("%+v, %v", a, refusal)
			}
			asked := srv.questions()
			q := asked[len(asked)-1]
			q.args = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(q.args)
			if q.kind != c.kind || q.tool != c.tool || q.args != c.sent {
				t.Errorf("asked for %+v, want %+v", q, c)
			}
			for _, word := range []string{"acme", "ann-the-user", "bot-the-agent", "the-session"} {
				if strings.Contains(fmt.Sprint(q), word) {
					t.Errorf("%q was sent: %v", word, q)
				}
			}
		}
	})
}

// TestArgumentsThatCannotBeJudged: ambiguous arguments are not sent, and not repeated in errors.
func TestArgumentsThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		srv := &server{answer: func(context.Context, question) (answer, error) { return allow(), nil }}
		c := start(srv)
		c.OnFailure = call.Allow
		s := judges(t, c, extauthz.Options{})
		for name, args := range map[string]string{
			"cut off": `{"secret":`, "twice": `{"secret":1,"secret":2}`, "not UTF-8": "{\"secret\":\"\xff\"}",
			"two values": `{"secret":1} {}`,
			"array":      `["secret"]`, "null": "null", "string": `"secret"`,
			"deep": strings.Repeat(`{"secret":`, 101) + "1" + strings.Repeat("}", 101),
			"long": `{"secret":"` + strings.Repeat("x", 1<<20) + `"}`,
		} {
			_, refusal := s.Check(check.Context(t), forecast(), []byte(args))
			if refusal == nil || refusal.Kind != call.InvalidArgument || refusal.Reason != "ARGUMENTS_INVALID" ||
				strings.Contains(refusal.Message, "secret") {
				t.Errorf("%s: %v", name, refusal)
			}
		}
		for _, tool := range []string{"\xff", strings.Repeat("x", 513)} {
			c := forecast()
			c.Tool = tool
			if _, refusal := s.Check(check.Context(t), c, nil); refusal == nil ||
				refusal.Reason != "ARGUMENTS_INVALID" || !utf8.ValidString(fmt.Sprint(refusal.Message,
				refusal.Metadata)) {
				t.Errorf("the tool %.5q: %v", tool, refusal)
			}
		}
		if n := len(srv.questions()); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestReasonIsCleaned: Shield's texts are bounded, and contain no character that moves a cursor or hides text.
func TestReasonIsCleaned(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		srv := &server{answer: func(context.Context, question) (answer, error) {
			return answer{
				decision: "ESCALATE", reasoning: " \x1b[2Jno\u202e\u200b\x00\u2028way\r\n" + strings.Repeat("ü", 1000),
				hash: strings.Repeat("\x07a", 500),
			}, nil
		}}
		s := judges(t, start(srv), extauthz.Options{})
		a, _ := s.Check(check.Context(t), forecast(), nil)
		if !strings.HasPrefix(a.Reason, "[2Jno way  üü") || len(a.Reason) > 500 || len(a.Reason) < 499 ||
			!utf8.ValidString(a.Reason) || a.ActionHash != strings.Repeat("a", 128) {
			t.Errorf("%q, %q", a.Reason, a.ActionHash)
		}
	})
}

func TestOverTLS(t *testing.T) {
	t.Parallel()
	cert, stranger := certificate(t), certificate(t)
	srv := &server{answer: func(context.Context, question) (answer, error) { return allow(), nil }}
	for name, c := range map[string]extauthz.Config{"grpc": serveGRPC(t, srv, cert), "http": serveHTTP(t, srv, cert)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.TLS = &tls.Config{RootCAs: pool(cert)}
			a, refusal := judges(t, c, extauthz.Options{}).Check(check.Context(t), forecast(), nil)
			if a.Verdict != call.Allow || refusal != nil {
				t.Errorf("%+v, %v", a, refusal)
			}
			c.TLS = &tls.Config{RootCAs: pool(stranger)}
			if a, refusal = judges(t, c, extauthz.Options{}).Check(check.Context(t), forecast(), nil); refusal == nil {
				t.Errorf("a stranger answered: %+v", a)
			}
		})
	}
}

func certificate(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.Must(t, err)
	leaf, err := x509.ParseCertificate(der)
	check.Must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestQualifiedActions: the type distinguishes the tools of two capabilities, and the verdict on one does not apply to
// the other.
func TestQualifiedActions(t *testing.T) {
	t.Parallel()
	onBothForms(t, func(t *testing.T, start func(*server) extauthz.Config) {
		srv := &server{answer: func(_ context.Context, q question) (answer, error) {
			a := answer{decision: "BLOCK", evaluated: time.Now(), expires: time.Now().Add(time.Hour)}
			if q.kind == "weather.get_forecast" {
				a.decision = "ALLOW"
			}
			return a, nil
		}}
		c := start(srv)
		c.Qualified = true
		s := judges(t, c, extauthz.Options{})
		err := s.Replace([]extauthz.Config{c}, map[string]string{"weather": c.Name, "almanac": c.Name})
		check.Must(t, err)
		other, nameless := forecast(), forecast()
		other.Capability, nameless.Tool = "almanac", ""
		for range 2 { // the second time from the cache
			if a, refusal := s.Check(check.Context(t), forecast(), nil); refusal != nil || a.Verdict != call.Allow {
				t.Errorf("weather: %+v, %v", a, refusal)
			}
			for _, blocked := range []*call.Call{other, nameless} {
				if _, refusal := s.Check(check.Context(t), blocked, nil); refusal == nil ||
					refusal.Reason != "SHIELD_BLOCKED" {
					t.Errorf("%s %q: %v", blocked.Capability, blocked.Tool, refusal)
				}
			}
		}
		var kinds []string
		for _, q := range srv.questions() {
			kinds = append(kinds, q.kind)
		}
		if want := []string{"weather.get_forecast", "almanac.get_forecast", "weather.tool_call"}; !slices.Equal(kinds,
			want) {
			t.Errorf("asked about %q, want %q", kinds, want)
		}
	})
}
