package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrPanic is the error of a function that has panicked. To gRPC it is the status INTERNAL.
var ErrPanic error = panicked{}

type panicked struct{}

func (panicked) Error() string {
	return "internal error: the gateway's log has a line \"panic\" with the stack"
}

// GRPCStatus is for status.FromError.
func (p panicked) GRPCStatus() *status.Status { return status.New(codes.Internal, p.Error()) }

var (
	log atomic.Pointer[slog.Logger] // nil: slog.Default
	mu  sync.Mutex
	// a counter begins with 0, the others' with their first panic
	counts = map[string]int64{"relay shard": 0, "relay handler": 0, "http": 0}
)

// LogTo has panics told to l from now on.
func LogTo(l *slog.Logger) { log.Store(l) }

// Counts is how many panics there were, by the names of goroutines.
func Counts() map[string]int64 {
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(counts)
}

// Report logs and counts a panic. It is for deferred functions that have recovered v: the stack is still there.
// where is a constant, as it becomes a label.
func Report(where string, v any) {
	mu.Lock()
	counts[where]++
	mu.Unlock()
	l := log.Load()
	if l == nil {
		l = slog.Default()
	}
	defer func() { _ = recover() }() // telling must not end the process either
	l.Error("panic", "goroutine", where, "panic", describe(v), "stack", stack())
}

// Do calls f, of which a panic becomes ErrPanic.
func Do(where string, f func() error) (err error) {
	err = ErrPanic
	defer Recover(where)
	return f()
}

// Func makes f a function that does not panic.
func Func(where string, f func()) func() {
	return func() {
		defer Recover(where)
		f()
	}
}

// Round is Func, called at once: one round of a loop, which is lost with a panic.
func Round(where string, f func()) { Func(where, f)() }

// Recover reports a panic and ends it. It is to be deferred.
func Recover(where string) {
	if v := recover(); v != nil {
		Report(where, v)
	}
}

// How long a loop rests after a panic.
const (
	firstRest = 100 * time.Millisecond
	lastRest  = 30 * time.Second
)

// Loop makes f, which works until ctx ends, one that begins again after a panic.
func Loop(ctx context.Context, where string, f func()) func() {
	return func() {
		for rest := firstRest; Do(where, func() error { f(); return nil }) != nil; rest = min(2*rest, lastRest) {
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return
			}
		}
	}
}

// Handler answers requests whose handler has panicked with failed, if nothing of an answer has gone out, and else
// closes their connections.
func Handler(where string, next, failed http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &observed{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(v)
			}
			Report(where, v)
			if o.begun {
				panic(http.ErrAbortHandler) // the client must not take what it has for all
			}
			clear(w.Header())
			failed.ServeHTTP(w, r)
		}()
		next.ServeHTTP(o, r)
	})
}

// observed knows whether an answer has begun.
type observed struct {
	http.ResponseWriter
	begun bool
}

func (o *observed) WriteHeader(status int) {
	o.begun = o.begun || status >= http.StatusOK
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(p []byte) (int, error) {
	o.begun = true
	return o.ResponseWriter.Write(p)
}

// ReadFrom keeps net/http's way of sending files.
func (o *observed) ReadFrom(src io.Reader) (int64, error) {
	o.begun = true
	return io.Copy(o.ResponseWriter, src)
}

// Flush is for who asks for an http.Flusher instead of an http.ResponseController.
func (o *observed) Flush() {
	o.begun = true
	_ = http.NewResponseController(o.ResponseWriter).Flush() // what cannot flush has nothing to be told
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// describe is what is told of a panic's value. Texts that the runtime wrote hold types and numbers alone.
func describe(v any) string {
	var err runtime.Error
	if e, ok := v.(error); ok && errors.As(e, &err) {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}

// maxFrames bounds the stack that is logged.
const maxFrames = 64

// stack is the functions that run, from the one that has panicked, without their arguments.
func stack() string {
	pcs := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var b strings.Builder
	for panicked := false; ; {
		f, more := frames.Next()
		if f.Function == "runtime.gopanic" {
			b.Reset() // what is above recovers; after a second panic the first is the one that counts
			panicked = true
		} else if panicked && f.Function != "" {
			fmt.Fprintf(&b, "%s %s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}
