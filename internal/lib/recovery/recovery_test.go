package recovery_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// TestReport: a panic is logged with its stack, and without data of a caller.
func TestReport(t *testing.T) { // not parallel: the log is the process's
	var log bytes.Buffer
	recovery.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { recovery.LogTo(slog.Default()) })
	before := recovery.Counts()["test"]

	if err := recovery.Do("test", func() error { return spill("hunter2") }); !errors.Is(err, recovery.ErrPanic) ||
		status.Code(err) != codes.Internal {
		t.Errorf("Do: %v", err)
	}
	if said := log.String(); strings.Contains(said, "hunter2") || !strings.Contains(said, "recovery_test.spill") ||
		!strings.Contains(said, "a value of type string") || strings.Contains(said, "0x") ||
		strings.Contains(said, "runtime.gopanic") {
		t.Errorf("the log has %s", said)
	}
	log.Reset()
	recovery.Round("test", func() { _ = []int{}[len(log.Bytes())] })
	if said := log.String(); !strings.Contains(said, "index out of range [0] with length 0") {
		t.Errorf("the log has %s", said)
	}
	if n := recovery.Counts()["test"] - before; n != 2 {
		t.Errorf("%d panics were counted, not 2", n)
	}
}

//go:noinline
func spill(secret string) error { panic("bad token " + secret) }

// TestLoop: a loop begins again after a panic, and ends with its context or by itself.
func TestLoop(t *testing.T) {
	rounds := 0
	recovery.Loop(t.Context(), "test", func() {
		if rounds++; rounds < 3 {
			panic("again")
		}
	})()
	if rounds != 3 {
		t.Errorf("%d rounds", rounds)
	}
	ctx, cancel := context.WithCancel(t.Context())
	recovery.Loop(ctx, "test", func() { cancel(); panic("again") })()
}

// TestHandler: a request whose handler panics gets a response; if its response has begun, it is broken off.
func TestHandler(t *testing.T) {
	t.Parallel()
	failed := http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	server := httptest.NewServer(recovery.Handler("test", http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = w.Write([]byte("half an answer"))
			_ = http.NewResponseController(w).Flush()
		}
		panic("boom")
	}), failed))
	t.Cleanup(server.Close)
	client := server.Client()
	client.Timeout = 30 * time.Second
	resp, err := client.Get(server.URL + "/")
	if err != nil || resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("%v %v", resp, err)
	}
	if resp, err = client.Get(server.URL + "/begun"); err == nil {
		var all bytes.Buffer
		_, err = all.ReadFrom(resp.Body)
	}
	if err == nil {
		t.Error("half an answer reads as a whole one")
	}
}
