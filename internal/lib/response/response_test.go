package response_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capgate/capgate/internal/lib/response"
)

// flushed is a response that can be flushed only by a ResponseController.
type flushed struct {
	http.ResponseWriter
	times int
}

func (f *flushed) FlushError() error {
	f.times++
	return nil
}

// TestBegin: whichever method sends the header, the response begins before it, once.
func TestBegin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    func(*response.Writer)
		begun int
	}{
		"nothing":          {func(*response.Writer) {}, 0},
		"informational":    {func(w *response.Writer) { w.WriteHeader(http.StatusEarlyHints) }, 0},
		"another protocol": {func(w *response.Writer) { w.WriteHeader(http.StatusSwitchingProtocols) }, 1},
		"a status":         {func(w *response.Writer) { w.WriteHeader(http.StatusTeapot) }, 1},
		"bytes":            {func(w *response.Writer) { _, _ = w.Write([]byte("x")); _, _ = w.Write([]byte("y")) }, 1},
		"a flush":          {func(w *response.Writer) { w.Flush(); w.Flush() }, 1},
		"the end":          {func(w *response.Writer) { w.Start(); w.Start() }, 1},
		"a controller":     {func(w *response.Writer) { _ = http.NewResponseController(w).Flush() }, 1},
	} {
		begun := 0
		rec := httptest.NewRecorder()
		w := &response.Writer{ResponseWriter: rec}
		w.Begin = func() {
			if begun++; rec.Body.Len() > 0 || rec.Flushed {
				t.Errorf("%s: it begins too late", name)
			}
		}
		if c.do(w); begun != c.begun || w.Begun() != (begun > 0) {
			t.Errorf("%s: it has begun %d times, %t", name, begun, w.Begun())
		}
	}
}

// TestFlush: a flush reaches the wrapped response, after what was kept back.
func TestFlush(t *testing.T) {
	t.Parallel()
	out := &flushed{ResponseWriter: httptest.NewRecorder()}
	kept := 0
	w := &response.Writer{ResponseWriter: out, Flushing: func() {
		if kept++; out.times >= kept {
			t.Error("it is flushed before what was kept back")
		}
	}}
	if w.Flush(); out.times != 1 || kept != 1 {
		t.Errorf("flushed %d times, with what was kept back %d times", out.times, kept)
	}
	if w.Unwrap() != http.ResponseWriter(out) {
		t.Error("a ResponseController does not find the wrapped response")
	}
}
