package translate_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/translate"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// queue admits every call at once.
type queue struct{}

func (queue) Wait(context.Context, string, string) error { return nil }

func server() *localgrpc.Server {
	return translate.NewServer(queue{}, 1<<20, func(context.Context, *call.Refusal) error { return nil })
}

// TestServed: only calls that need translation are served, and the translator gets their capability.
func TestServed(t *testing.T) {
	t.Parallel()
	f := translate.New(server())
	for _, mode := range []dialect.Mode{dialect.Same, dialect.Convert} {
		c, stream := filtertest.NewCall()
		c.Info.Capability, c.Attempt.Mode = "weather", mode
		step := f.Admit(c, nil)
		id, _ := stream.Header(filter.CapabilityHeader)
		switch converts := mode == dialect.Convert; {
		case converts != (step == filter.Stop && c.Answer().Server != nil), converts != c.Attempt.Translated,
			converts != (id == "weather"):
			t.Errorf("mode %d: step %d, %+v, %q", mode, step, c.Attempt, id)
		}
	}
}

// Example: the translator serves the services of all dialects.
func Example() {
	fmt.Println(len(server().GetServiceInfo()))
	// Output: 3
}
