package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// pace is the pause of each caller between two calls. Without it no processor time would be left for what
// happens meanwhile.
const pace = 20 * time.Millisecond

// load calls the echoing tools of "caps" until end. A call that fails, or gets another's response, fails the
// test.
type load struct {
	tools  []string           // callers alternate
	excuse func(failure) bool // whether a call may fail in this way; nil means that none may

	id            string // prefix of the calls' ids
	calls, failed atomic.Int64
	ended         chan struct{}
	all           sync.WaitGroup
}

// failure is a call that failed.
type failure struct {
	id, tool string
	err      error
	begun    bool // its response had begun
}

// startLoad starts a number of callers of the tool Echo for each client.
func startLoad(t *testing.T, callers int, clients ...docpb.CapabilityClient) *load {
	t.Helper()
	l := &load{tools: []string{gatewaytest.Echo}}
	l.start(t, callers, clients...)
	return l
}

func (l *load) start(t *testing.T, callers int, clients ...docpb.CapabilityClient) {
	t.Helper()
	l.id, l.ended = rand.Text(), make(chan struct{})
	for i := range callers * len(clients) {
		client, tool := clients[i%len(clients)], l.tools[i/len(clients)%len(l.tools)]
		l.all.Go(func() {
			for {
				select {
				case <-l.ended:
					return
				case <-time.After(pace):
				}
				l.call(t, client, tool)
			}
		})
	}
	t.Cleanup(l.end)
}

func (l *load) call(t *testing.T, client docpb.CapabilityClient, tool string) {
	ctx, cancel := context.WithTimeout(context.Background(), check.Patience)
	defer cancel()
	var header metadata.MD
	f := failure{id: fmt.Sprintf("%s-%d-%s", l.id, l.calls.Add(1), tool), tool: tool}
	args := `"` + f.id + `"`
	resp, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool,
		ArgsJson: []byte(args)}, grpc.Header(&header))
	f.err, f.begun = err, len(header) > 0
	switch {
	case err == nil && string(resp.GetResultJson()) == args:
	case err != nil && l.excuse != nil && l.excuse(f):
	case l.failed.Add(1) < 5:
		t.Errorf("%s, call %s: %s, %v (the answer had begun: %v)", tool, f.id, resp.GetResultJson(), err, f.begun)
	}
}

// more waits until a number of further calls have started.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	want := l.calls.Load() + n
	check.Until(t, "further calls", func() (bool, string) {
		calls := l.calls.Load()
		return calls >= want, fmt.Sprintf("%d calls, want %d", calls, want)
	})
}

// during makes calls before, while and after something happens.
func (l *load) during(t *testing.T, what string, happens func()) {
	t.Helper()
	l.more(t, 100)
	before := l.failed.Load()
	happens()
	l.more(t, 100)
	if failed := l.failed.Load() - before; failed > 0 {
		t.Errorf("%s: %d calls failed", what, failed)
	}
}

// end waits for the running calls.
func (l *load) end() {
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
	l.all.Wait()
}
