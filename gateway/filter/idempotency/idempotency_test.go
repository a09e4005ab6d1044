package idempotency_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/idempotency"
	"github.com/capgate/capgate/internal/call"
	stored "github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// queue admits every call at once.
type queue struct{}

func (queue) Wait(context.Context, string, string) error { return nil }

func server() *idempotency.Server {
	return idempotency.NewServer(idempotency.ServerConfig{Service: new(stored.Service),
		Queue: queue{}, MaxMessage: 1 << 20, Refuse: func(context.Context, *call.Refusal) error { return nil },
	})
}

// keyed returns a call of a fleet whose idempotency keys the gateway handles, or its backends do.
func keyed(m call.Method, ours bool, headers ...string) (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall(headers...)
	c.Info.Method = m
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"),
		Idempotency: router.Idempotency{GRPC: ours}})
	return c, stream
}

// TestWhichCallsAreKeyed: if the gateway handles keys, a call is keyed by its only key. An invalid key is rejected.
func TestWhichCallsAreKeyed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method  call.Method
		backend bool // the fleet forwards keys to its backends
		off     bool
		given   []string // by a front door
		headers []string
		keyed   bool
		reason  string
	}{
		"none":                 {method: call.Invoke},
		"metadata":             {method: call.Invoke, headers: []string{"idempotency-key", "k"}, keyed: true},
		"metadata of backends": {method: call.Invoke, backend: true, headers: []string{"idempotency-key", "k"}},
		"of a front door":      {method: call.Invoke, backend: true, given: []string{"k"}, keyed: true},
		"twice the same":       {method: call.Invoke, given: []string{"k", "k"}, keyed: true},
		"two":                  {method: call.Invoke, given: []string{"k", "l"}, reason: "IDEMPOTENCY_KEY_INVALID"},
		"two in metadata": {method: call.Invoke, headers: []string{"idempotency-key", "k", "idempotency-key", "l"},
			reason: "IDEMPOTENCY_KEY_INVALID"},
		"too long": {method: call.Invoke, given: []string{strings.Repeat("k", 256)},
			reason: "IDEMPOTENCY_KEY_INVALID"},
		"of a stream": {method: call.StreamInvoke, given: []string{"k"}, reason: "IDEMPOTENCY_UNSUPPORTED"},
		"of an upload": {method: call.UploadInputArtifact, given: []string{"k"},
			reason: "IDEMPOTENCY_UNSUPPORTED"},
		"of another call":       {method: call.Healthcheck, given: []string{"k"}},
		"where nothing is kept": {method: call.Invoke, off: true, given: []string{"k"}, reason: "IDEMPOTENCY_OFF"},
	} {
		s := server()
		if test.off {
			s = nil
		}
		c, stream := keyed(test.method, !test.backend, test.headers...)
		state := &idempotency.State{Given: test.given}
		step := idempotency.NewKeyFilter(s).Admit(c, state)
		reason := ""
		if r := c.Answer().Refusal; r != nil {
			reason = r.Reason
		}
		if c.Keyed != test.keyed || reason != test.reason || (step == filter.Continue) != (reason == "") {
			t.Errorf("%s: step %d, keyed %t, %q", name, step, c.Keyed, reason)
		}
		if _, left := stream.Header("idempotency-key"); left != (test.backend && test.headers != nil) {
			t.Errorf("%s: the backend gets the key: %t", name, left)
		}
		if test.reason != "" {
			continue
		}
		if step := idempotency.New(s).Admit(c, state); (step == filter.Stop) != test.keyed ||
			(c.Answer().Server != nil) != test.keyed {
			t.Errorf("%s: step %d, served %t", name, step, c.Answer().Server != nil)
		}
	}
}

// Example: a call with an idempotency key is served in the process.
func Example() {
	s, state := server(), &idempotency.State{}
	c, _ := keyed(call.Invoke, true, "idempotency-key", "7")
	idempotency.NewKeyFilter(s).Admit(c, state)
	idempotency.New(s).Admit(c, state)
	fmt.Println(c.Answer().Server != nil)
	// Output: true
}
