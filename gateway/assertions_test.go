package gateway_test

import (
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// slowSigner signs when its gate opens.
type slowSigner struct {
	begun chan struct{}
	gate  chan struct{}
}

func (*slowSigner) Ready() bool { return true }

func (s *slowSigner) Sign(string, *assertion.Caller) (string, error) {
	s.begun <- struct{}{}
	<-s.gate
	return "signed", nil
}

// TestSignaturesDelayNoOtherCall: while an assertion is signed, other calls of the same connection, and so of the same
// shard, go on.
func TestSignaturesDelayNoOtherCall(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	backend := capability.Serve(t, call.Doc)
	signs := &slowSigner{make(chan struct{}, 1), make(chan struct{})}
	g := gatewaytest.Start(t, gatewaytest.Options{Assert: signs, Fleets: []gatewaytest.Fleet{
		{Capability: "signed", Backends: []string{backend.Addr}, Assertion: &router.Assertion{}},
		{Capability: "plain", Backends: []string{backend.Addr}},
	}})
	open := sync.OnceFunc(func() { close(signs.gate) })
	check.Cleanup(t, open)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	ended := make(chan error, 1)
	invoke := func(capability string) error {
		_, err := client.Invoke(check.Context(t), &docpb.InvokeRequest{CapabilityId: capability, ToolName: "echo",
			ArgsJson: []byte("{}")})
		return err
	}
	go func() { ended <- invoke("signed") }()
	check.Received(t, signs.begun, "the signature")
	if err := invoke("plain"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the call did not wait for its signature: %v", err)
	default:
	}
	open()
	if err := check.Received(t, ended, "the signed call"); err != nil {
		t.Error(err)
	}
	seen := capability.Seen()
	if len(seen) != 2 || len(seen[0].Metadata[assertion.Header]) != 0 ||
		len(seen[1].Metadata[assertion.Header]) != 1 {
		t.Errorf("%+v", seen)
	}
}
