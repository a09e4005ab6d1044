package mailer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/smtptest"
)

const secret = "hidden-password"

var text = []byte("Subject: x\r\n\r\nline\r\n.\r\n.dot\r\nRSET\r\n") //nolint:gochecknoglobals // a constant

func send(t *testing.T, s *mailer.Server, to ...string) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	return s.Send(ctx, &mailer.Message{From: "gate@example.com", To: to, Text: text})
}

// certified returns the settings of a server for 127.0.0.1, and of clients that trust it.
func certified(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	authority := certtest.New(t)
	return &tls.Config{Certificates: []tls.Certificate{authority.Server(t)}, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12}
}

// TestMessagesArriveWhole: over each kind of TLS and each sign-in, with dots and commands in the text.
func TestMessagesArriveWhole(t *testing.T) {
	t.Parallel()
	server, client := certified(t)
	for name, test := range map[string]struct {
		options smtptest.Options
		server  mailer.Server
	}{
		"STARTTLS": {smtptest.Options{TLS: server}, mailer.Server{TLS: client}},
		"implicit": {smtptest.Options{TLS: server, Implicit: true},
			mailer.Server{TLS: client, Security: mailer.Implicit}},
		"loopback": {smtptest.Options{}, mailer.Server{Security: mailer.Off}},
		"PLAIN": {smtptest.Options{TLS: server, Auth: "CRAM-MD5 PLAIN LOGIN", User: "gate", Password: secret},
			mailer.Server{TLS: client, Username: "gate", Password: secret}},
		"LOGIN": {smtptest.Options{TLS: server, Auth: "XOAUTH2 LOGIN", User: "gate", Password: secret},
			mailer.Server{TLS: client, Username: "gate", Password: secret}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := smtptest.Start(t, test.options)
			test.server.Addr = s.Addr
			if rejected, err := send(t, &test.server, "ann@example.com", "bob@example.com"); err != nil ||
				rejected != 0 {
				t.Fatal(rejected, err)
			}
			got := check.Received(t, s.Came(), "the message")
			if got.From != "gate@example.com" || !slices.Equal(got.To, []string{"ann@example.com",
				"bob@example.com"}) || got.Text != strings.ReplaceAll(string(text), "\r\n", "\n") ||
				got.TLS != (test.options.TLS != nil) || got.User != test.server.Username || got.Hello != "[127.0.0.1]" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestFailures: each has a reason without any text of the server, nothing secret goes over cleartext, and rejections
// of the message are permanent.
func TestFailures(t *testing.T) {
	t.Parallel()
	server, client := certified(t)
	only := func(verb, answer string) func(string) string {
		return func(line string) string {
			if strings.HasPrefix(strings.ToUpper(line), verb) {
				return answer
			}
			return ""
		}
	}
	for name, test := range map[string]struct {
		options   smtptest.Options
		server    mailer.Server
		want      string
		permanent bool
	}{
		"no STARTTLS": {smtptest.Options{Auth: "PLAIN", User: "gate", Password: secret},
			mailer.Server{Username: "gate", Password: secret}, "does not offer STARTTLS", false},
		"STARTTLS is refused": {smtptest.Options{TLS: server, Answer: only("STARTTLS", "454 hidden")},
			mailer.Server{Username: "gate", Password: secret}, "the server answered 454 to connect", false},
		"untrusted": {smtptest.Options{TLS: server}, mailer.Server{}, "certificate is not trusted", false},
		"untrusted implicit": {smtptest.Options{TLS: server, Implicit: true},
			mailer.Server{Security: mailer.Implicit}, "certificate is not trusted", false},
		"no TLS": {smtptest.Options{},
			mailer.Server{Security: mailer.Implicit}, "does not speak TLS", false},
		"wrong password": {smtptest.Options{TLS: server, Auth: "PLAIN", User: "gate", Password: "x"},
			mailer.Server{TLS: client, Username: "gate", Password: secret}, "the server answered 535 to AUTH", false},
		"no sign-in": {smtptest.Options{TLS: server, Auth: "XOAUTH2", User: "gate"},
			mailer.Server{TLS: client, Username: "gate", Password: secret}, "neither AUTH PLAIN nor AUTH LOGIN", false},
		"not signed in": {smtptest.Options{TLS: server, Auth: "PLAIN", User: "gate"}, mailer.Server{TLS: client},
			"the server answered 530 to MAIL", false},
		"sender": {smtptest.Options{TLS: server, Answer: only("MAIL", "553 hidden")},
			mailer.Server{TLS: client}, "the server answered 553 to MAIL", true},
		"mailbox": {smtptest.Options{TLS: server, Answer: only("RCPT", "550 hidden")},
			mailer.Server{TLS: client}, "the server answered 550 to RCPT", true},
		"greylist": {smtptest.Options{TLS: server, Answer: only("RCPT", "451 hidden")},
			mailer.Server{TLS: client}, "the server answered 451 to RCPT", false},
		"spam": {smtptest.Options{TLS: server, Answer: only("DATA", "554 hidden")},
			mailer.Server{TLS: client}, "the server answered 554 to DATA", true},
		"garbage": {smtptest.Options{Answer: only("", "hidden")},
			mailer.Server{}, "the answer is not SMTP", false},
		"long line": {smtptest.Options{Answer: only("EHLO", strings.Repeat("2", 1<<20))},
			mailer.Server{}, "answers are too long", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := smtptest.Start(t, test.options)
			test.server.Addr = s.Addr
			_, err := send(t, &test.server, "ann@example.com")
			var failure *mailer.Error
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), test.want) ||
				strings.Contains(err.Error(), "hidden") || failure.Permanent != test.permanent {
				t.Errorf("got %v (%v), want %s", err, errors.Unwrap(err), test.want)
			}
			if test.options.TLS == nil && slices.ContainsFunc(s.Lines(), func(line string) bool {
				return strings.HasPrefix(line, "AUTH") || strings.HasPrefix(line, "MAIL")
			}) {
				t.Errorf("sent in cleartext: %q", s.Lines())
			}
		})
	}
}

// TestRejectedRecipients: the others get the message.
func TestRejectedRecipients(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t, smtptest.Options{Answer: func(line string) string {
		if strings.Contains(line, "gone@") {
			return "550 gone"
		}
		return ""
	}})
	rejected, err := send(t, &mailer.Server{Addr: s.Addr, Security: mailer.Off}, "gone@example.com", "ann@example.com")
	if got := check.Received(t, s.Came(), "the message"); err != nil || rejected != 1 ||
		!slices.Equal(got.To, []string{"ann@example.com"}) {
		t.Errorf("%d, %v, %+v", rejected, err, got)
	}
}

// farConn is a connection to a server at an address of the test's choice.
type farConn struct {
	net.Conn
	remote net.Addr
}

func (c farConn) RemoteAddr() net.Addr { return c.remote }

// TestNoCleartextToOthers: nothing is sent without TLS to a server on another machine.
func TestNoCleartextToOthers(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]net.Addr{
		"IPv4": &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 25},
		"IPv6": &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 25},
		"any":  &net.TCPAddr{IP: net.IPv4zero, Port: 25},
		"none": &net.UnixAddr{Name: "smtp", Net: "unix"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := smtptest.Start(t, smtptest.Options{})
			server := mailer.Server{Addr: s.Addr, Security: mailer.Off,
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					return farConn{conn, remote}, err
				}}
			if _, err := send(t, &server, "ann@example.com"); err == nil ||
				!strings.Contains(err.Error(), "without TLS") {
				t.Errorf("%v: %v", remote, err)
			}
			if lines := s.Lines(); len(lines) > 0 {
				t.Errorf("%v was told %q", remote, lines)
			}
		})
	}
}

// TestSilentServers: a session ends with its context, wherever the server falls silent.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"EHLO", "MAIL", "DATA"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			s := smtptest.Start(t, smtptest.Options{Answer: func(line string) string {
				if strings.HasPrefix(line, verb) {
					cancel()
					<-t.Context().Done()
				}
				return ""
			}})
			_, err := (&mailer.Server{Addr: s.Addr, Security: mailer.Off}).Send(ctx,
				&mailer.Message{From: "gate@example.com", To: []string{"ann@example.com"}, Text: text})
			if !errors.Is(err, context.Canceled) || fmt.Sprint(err) != "canceled" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAddressesWithLines: an address cannot inject commands.
func TestAddressesWithLines(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t, smtptest.Options{})
	if _, err := send(t, &mailer.Server{Addr: s.Addr, Security: mailer.Off}, "ann@example.com>\r\nRSET"); err == nil {
		t.Error("accepted")
	}
}
