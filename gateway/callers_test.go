package gateway_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// gatedAuthenticator is an authenticator that knows no caller at first, and authenticates one when the test says so.
type gatedAuthenticator struct {
	asked chan tenant.Credentials
	say   chan tenant.Identity
	left  chan struct{} // optional; receives a value for each caller that leaves early
}

func (gatedAuthenticator) Lookup(tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	return tenant.Identity{}, false, nil
}

func (s gatedAuthenticator) Authenticate(ctx context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	s.asked <- c
	select {
	case who := <-s.say:
		return who, nil
	case <-ctx.Done():
		if s.left != nil {
			s.left <- struct{}{}
		}
		return tenant.Identity{}, &call.Refusal{Kind: call.Unavailable, Reason: "LATE"}
	}
}

// partlyCached authenticates only some callers at first.
type partlyCached struct{ gatedAuthenticator }

func (u partlyCached) Authenticate(ctx context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	if c.Credential != "other" {
		<-ctx.Done()
	}
	return tenant.Identity{}, &call.Refusal{Kind: call.Unauthenticated, Reason: "UNKNOWN"}
}

// TestUnknownCredentialsLeaveRoom: calls with unknown credentials from one address do not prevent calls from another
// address from being authenticated.
func TestUnknownCredentialsLeaveRoom(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		ClientAddr: clientaddr.New(clientaddr.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Protocol: clientaddr.V1}),
		Authenticator: partlyCached{},
	})
	come := func(addr, credential string, streams int) *rawhttp2.Conn {
		c, err := rawhttp2.Dial(g.Addr)
		check.Must(t, err)
		check.Cleanup(t, func() { _ = c.Close() })
		err = errors.Join(c.WriteBytes([]byte("PROXY TCP4 "+addr+" 192.0.2.200 1000 80\r\n")), c.Greet())
		for i := range streams {
			block := c.Block(":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", invokePath,
				"content-type", "application/grpc", "te", "trailers", "x-capability-id", "caps", "authorization",
				"Bearer "+credential)
			err = errors.Join(err, c.Write(rawhttp2.Headers(uint32(2*i+1), false, block)))
		}
		if err == nil && streams > 1 { // by then all of them wait; the answer for one must not be missed
			err = c.Sync()
		}
		check.Must(t, err)
		return c
	}
	for range 11 { // more than the maximum that may wait
		come("192.0.2.1", "nobody's", 1000)
	}
	other := come("192.0.2.2", "other", 1)
	f, err := other.Wait(func(f rawhttp2.Frame) bool { return f.Stream == 1 && f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	fields, err := other.Fields(f.Payload)
	if err != nil || fields["grpc-status"] != "16" {
		t.Errorf("another address: %v, %v", fields, err)
	}
}

// TestUnknownCredentialsWait: a call with an unknown credential waits, with its messages, until it is authenticated. A
// caller that leaves meanwhile, or a gateway that stops, does no harm.
func TestUnknownCredentialsWait(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		by := gatedAuthenticator{asked: make(chan tenant.Credentials), say: make(chan tenant.Identity),
			left: make(chan struct{}, 3)}
		f := &front{capability: gatewaytest.NewCapability("b1")}
		f.gateway = gatewaytest.Start(t, gatewaytest.Options{
			Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.capability.Serve(t,
				backend).Addr}}},
			Authenticator: by,
		})
		f.client = gatewaytest.NewClient(f.gateway.Conn(t), client)
		acme := tenant.Identity{Tenant: "acme", Key: "k", Scopes: tenant.Invoke}
		calls := map[string]func(context.Context) error{
			"unary": func(ctx context.Context) error {
				_, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`))
				return err
			},
			"upload": func(ctx context.Context) error {
				_, err := f.client.Upload(to(ctx, "caps"), gatewaytest.File{Name: "f", Data: []byte("some bytes")})
				return err
			},
		}
		for name, do := range calls {
			ended := make(chan error, 1)
			go func() { ended <- do(bearer(t.Context(), "secret")) }()
			if c := check.Received(t, by.asked, "the question"); c.Credential != "secret" {
				t.Errorf("%s: authenticated %+v", name, c)
			}
			by.say <- acme
			if err := check.Received(t, ended, "the end of the call"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			left, leave := context.WithCancel(bearer(t.Context(), "secret"))
			go func() { ended <- do(left) }()
			check.Received(t, by.asked, "the question")
			leave()
			if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
				t.Errorf("%s, canceled: %v", name, err)
			}
			select { // before or after the gateway notices
			case by.say <- acme:
			case <-by.left:
			}
		}
		go func() { _ = calls["unary"](bearer(t.Context(), "secret")) }()
		check.Received(t, by.asked, "the question") // still waits when the gateway stops
	})
}
