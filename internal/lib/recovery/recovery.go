package recovery

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/capgate/capgate/internal/lib/response"
)

// ErrPanic is the error of a function that panicked. Its gRPC status is INTERNAL.
var ErrPanic error = panicked{}

type panicked struct{}

func (panicked) Error() string {
	return "internal error: the gateway logged a line \"panic\" with the stack"
}

// GRPCStatus implements the interface that status.FromError looks for.
func (p panicked) GRPCStatus() *status.Status { return status.New(codes.Internal, p.Error()) }

var (
	log atomic.Pointer[slog.Logger] // nil: slog.Default
	mu  sync.Mutex
	// counts has the counters that begin with 0. Any other begins with its first panic.
	counts = map[string]int64{"relay shard": 0, "relay handler": 0, "http": 0}
)

// LogTo makes l the logger of panics.
func LogTo(l *slog.Logger) { log.Store(l) }

// Counts returns the number of panics by the name of the goroutine.
func Counts() map[string]int64 {
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(counts)
}

// Report logs and counts a panic. A deferred function that has recovered v calls it while the stack is still
// there. The argument where is a constant, because it becomes a label.
func Report(where string, v any) {
	mu.Lock()
	counts[where]++
	mu.Unlock()
	l := log.Load()
	if l == nil {
		l = slog.Default()
	}
	defer func() { _ = recover() }() // a panic of the logger must not end the process either
	l.Error("panic", "goroutine", where, "panic", describe(v), "stack", stack())
}

// Do calls f. A panic of f becomes ErrPanic.
func Do(where string, f func() error) (err error) {
	err = ErrPanic
	defer Recover(where)
	return f()
}

// Func returns a function that calls f and recovers its panic.
func Func(where string, f func()) func() {
	return func() {
		defer Recover(where)
		f()
	}
}

// Round calls f and recovers its panic. It is for one round of a loop, which is lost with a panic.
func Round(where string, f func()) { Func(where, f)() }

// Recover reports a panic and ends it. It has to be deferred.
func Recover(where string) {
	if v := recover(); v != nil {
		Report(where, v)
	}
}

// Pauses of a loop after a panic.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
)

// Loop returns a function that runs f, which works until ctx ends. After a panic it starts f again following a
// pause.
func Loop(ctx context.Context, where string, f func()) func() {
	return func() {
		for rest := firstPause; Do(where, func() error { f(); return nil }) != nil; rest = min(2*rest, maxPause) {
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return
			}
		}
	}
}

// Handler serves failed for a request whose handler panicked before it began a response. After the response has
// begun, it closes the connection instead.
func Handler(where string, next, failed http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response.Writer{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(v)
			}
			Report(where, v)
			if out.Begun() {
				panic(http.ErrAbortHandler) // the client must not take a partial response for a whole one
			}
			clear(w.Header())
			failed.ServeHTTP(w, r)
		}()
		next.ServeHTTP(out, r)
	})
}

// describe returns what is logged of a panic's value. Texts of the runtime hold types and numbers alone.
func describe(v any) string {
	var err runtime.Error
	if e, ok := v.(error); ok && errors.As(e, &err) {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}

// maxFrames bounds the stack that is logged.
const maxFrames = 64

// stack returns the functions that run, without arguments, beginning with the one that panicked.
func stack() string {
	pcs := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var b strings.Builder
	for panicked := false; ; {
		f, more := frames.Next()
		if f.Function == "runtime.gopanic" {
			b.Reset() // the frames above belong to the recovery; after a second panic the first one counts
			panicked = true
		} else if panicked && f.Function != "" {
			fmt.Fprintf(&b, "%s %s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}
