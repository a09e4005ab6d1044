package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// to is the URL of requests, with a secret in its query.
func to(t *testing.T, url string, c Config) *endpoint {
	t.Helper()
	c.URL, c.Secrets = url+"/hook?token=hidden", [][]byte{make([]byte, minSecret)}
	check.Must(t, c.setDefaults())
	p := newEndpoint(c)
	t.Cleanup(p.close)
	return p
}

func TestAnswersOfReceivers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for name, test := range map[string]struct {
		code  int
		after string
		want  reply
	}{
		"taken":       {204, "", reply{delivered: true}},
		"gone":        {410, "", reply{gone: true}},
		"redirect":    {307, "", reply{}},
		"error":       {500, "60", reply{}},
		"busy":        {429, "60", reply{wait: time.Minute}},
		"away":        {503, "Tue, 14 Nov 2023 22:14:20 GMT", reply{wait: time.Minute}},
		"in the past": {503, "Mon, 13 Nov 2023 22:14:20 GMT", reply{}},
		"nonsense":    {503, "soon", reply{}},
		"endless":     {503, "99999999999999999999", reply{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/hook" {
					t.Error("a redirect was followed")
				}
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", test.after)
				w.WriteHeader(test.code)
			}))
			defer receiver.Close()
			got := to(t, receiver.URL, Config{}).send(t.Context(), "msg_1", now, []byte("{}"))
			if got.delivered != test.want.delivered || got.gone != test.want.gone || got.wait != test.want.wait {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFailuresNameNoSecret(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	defer silent.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	garbage := answering(t, "hidden garbage\r\n\r\n")
	for name, test := range map[string]struct {
		url, want string
		timeout   time.Duration
	}{
		"closed":             {"http://" + check.ClosedPort(t), "connection refused", 0},
		"silent":             {silent.URL, "no answer in time", 50 * time.Millisecond},
		"unknown":            {"http://nowhere.invalid", "DNS", 0},
		"untrusted":          {secure.URL, "certificate is not trusted", 0},
		"does not speak TLS": {"https" + strings.TrimPrefix(silent.URL, "http"), "does not speak TLS", 0},
		"garbage":            {"http://" + garbage, "the answer is not HTTP", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := to(t, test.url, Config{Timeout: test.timeout}).send(t.Context(), "msg_1", time.Now(), nil)
			if got.delivered || !strings.Contains(got.reason, test.want) || strings.Contains(got.reason, "hidden") ||
				strings.Contains(got.reason, "hook") {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
	t.Run("trusted", func(t *testing.T) {
		roots := x509.NewCertPool()
		roots.AddCert(secure.Certificate())
		got := to(t, secure.URL, Config{
			TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}).send(t.Context(), "msg_1", time.Now(), nil)
		if got.reason != "HTTP status 404" {
			t.Errorf("got %+v", got)
		}
	})
}

// answering returns the address of a server that responds to every request with a text.
func answering(t *testing.T, text string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}()
	return ln.Addr().String()
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	render := func(a *approvals.Approval) ([]byte, error) {
		return json.Marshal(map[string]string{"arguments": a.Preview, "why": a.Why})
	}
	e := &Event{Kind: approvals.EventCreated, At: time.UnixMilli(1_700_000_000_123)}
	c := &Config{}
	text, err := c.body(e, &approvals.Approval{Preview: "<&>"}, render)
	want := `{"type":"approval.asked","timestamp":"2023-11-14T22:13:20.123Z",` +
		`"data":{"arguments":"\u003c\u0026\u003e","why":""}}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
	long := strings.Repeat("x", maxBody)
	if text, err = c.body(e, &approvals.Approval{Preview: long, Why: "it is far"}, render); err != nil ||
		!strings.Contains(string(text), `{"arguments":"","why":"it is far"}`) {
		t.Errorf("long arguments: %d bytes, %v", len(text), err)
	}
	if _, err = c.body(e, &approvals.Approval{Why: long}, render); !errors.Is(err, errBody) {
		t.Errorf("more than fits: %v", err)
	}
}

func TestBackoffGrowsAndEnds(t *testing.T) {
	t.Parallel()
	o := Options{}
	o.setDefaults()
	for attempts, most := range map[int]time.Duration{
		1: time.Second, 4: 8 * time.Second, 10: 512 * time.Second, 11: 10 * time.Minute, 99: 10 * time.Minute,
	} {
		for range 100 {
			if got := o.backoff(attempts, 0); got <= 0 || got > most+time.Millisecond {
				t.Errorf("after %d attempts: %v", attempts, got)
			}
		}
	}
	if got := o.backoff(1, 5*time.Minute); got != 5*time.Minute {
		t.Errorf("the receiver's word: %v", got)
	}
	if got := o.backoff(1, time.Hour); got != 10*time.Minute {
		t.Errorf("too long a word: %v", got)
	}
}
