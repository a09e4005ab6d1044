package proxytest

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Stream is a response that is read in pieces.
type Stream struct {
	Decode func([]byte) []byte // decodes the received bytes for Until; nil leaves them as they are

	body io.Reader
	got  []byte
}

// Open sends a request and returns when the response has begun.
func Open(t *testing.T, client *http.Client, req *http.Request) *Stream {
	t.Helper()
	resp, err := client.Do(req)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = resp.Body.Close() })
	return &Stream{body: resp.Body}
}

// Until reads until a text has arrived. It fails after check.Patience, even if heartbeats keep arriving.
func (s *Stream) Until(t *testing.T, text string) {
	t.Helper()
	began := time.Now()
	for buf := make([]byte, 4096); !s.has(text); {
		n, err := s.body.Read(buf)
		if err == nil && time.Since(began) > check.Patience {
			err = os.ErrDeadlineExceeded
		}
		if s.got = append(s.got, buf[:n]...); err != nil && !s.has(text) {
			t.Fatalf("%s, then %v, without %q", s.got, err, text)
		}
	}
}

func (s *Stream) has(text string) bool {
	got := s.got
	if s.Decode != nil {
		got = s.Decode(got)
	}
	return bytes.Contains(got, []byte(text))
}
