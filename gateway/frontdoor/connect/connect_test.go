package connect

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// endless makes calls that are streams that never end by themselves.
type endless struct {
	over chan struct{} // closed with the one stream
}

func (e *endless) calls() Calls {
	return Calls{Unary: func(context.Context, *relay.Request, []byte, *relay.Response) {},
		Open: func(ctx context.Context, _ relay.Request) (Stream, error) { return &endlessStream{e.over, ctx}, nil }}
}

type endlessStream struct {
	over chan struct{}
	ctx  context.Context
}

func (s *endlessStream) Fields() ([]relay.Field, bool)  { return nil, true }
func (s *endlessStream) TrailerFields() []relay.Field   { return nil }
func (s *endlessStream) Send([]byte) error              { return nil }
func (s *endlessStream) CloseSend() error               { return nil }
func (s *endlessStream) Ready() bool                    { return true }
func (s *endlessStream) Cancel()                        { close(s.over) }
func (s *endlessStream) Reject()                        {}
func (s *endlessStream) Receive([]byte) ([]byte, error) { return make([]byte, 1<<20), s.ctx.Err() }

// serve returns a front door of streams that never end, and a connection to it.
func serve(t *testing.T) (*endless, net.Conn) {
	t.Helper()
	conn := &endless{over: make(chan struct{})}
	srv := httptest.NewServer(New(conn.calls(), Config{Stall: 100 * time.Millisecond}))
	check.Cleanup(t, srv.Close)
	client, err := net.Dial("tcp", srv.Listener.Addr().String())
	check.Must(t, err)
	check.Cleanup(t, func() { client.Close() })
	return conn, client
}

func TestWhoReadsNothingIsCutOff(t *testing.T) {
	t.Parallel()
	conn, client := serve(t)
	if _, err := io.WriteString(client,
		"POST /a.B/C HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc-web\r\nContent-Length: 5\r\n\r\n"+
			"\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	check.Received(t, conn.over, "the end of the call")
}

func TestWhoSendsNothingIsCutOff(t *testing.T) {
	t.Parallel()
	_, client := serve(t)
	if _, err := io.WriteString(client,
		"POST /a.B/C HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc-web\r\nContent-Length: "+
			"5\r\n\r\n\x00"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	check.Must(t, err)
	if got := resp.Header.Get("Grpc-Status"); got != "4" {
		t.Error(got)
	}
	_ = resp.Body.Close()
}

func TestTextBody(t *testing.T) {
	t.Parallel()
	whole := base64.StdEncoding.EncodeToString([]byte("hello, world"))
	for _, test := range []struct {
		in, want string
		good     bool
	}{
		{"", "", true},
		{whole, "hello, world", true},
		{"aA==aGk=" + whole, "hhihello, world", true},
		{strings.Repeat("aGVsbG8=", 5000), strings.Repeat("hello", 5000), true},
		{whole + "aG", "hello, world", false},
		{"aG!=", "", false},
		{"=aaa", "", false},
		{"aGVs\nbG8=", "", false},
	} {
		for _, slow := range []bool{false, true} {
			var in io.Reader = strings.NewReader(test.in)
			if slow {
				in = iotest.OneByteReader(in)
			}
			got, err := io.ReadAll(&textBody{Reader: in})
			if (err == nil) != test.good || test.good && string(got) != test.want {
				t.Errorf("%.20q: %d bytes, %v", test.in, len(got), err)
			}
		}
	}
}

func TestTextWriter(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "application/grpc-web+proto")
	w := newTextWriter(rec)
	for _, part := range []string{"a", "bcde", "f", "", "gh"} {
		if n, err := io.WriteString(w, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.Flush()
	w.Flush()
	_, _ = io.WriteString(w, "i")
	w.Flush()
	enc := base64.StdEncoding.EncodeToString
	if got, want := rec.Body.String(), enc([]byte("abcdefgh"))+enc([]byte("i")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := rec.Header().Get("Content-Type"); got != "application/grpc-web-text+proto" {
		t.Error(got)
	}
}
