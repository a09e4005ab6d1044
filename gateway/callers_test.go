package gateway_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/gatewaytest"
	"github.com/capgate/capgate/internal/tenant"
)

// slowly knows nobody, and says who somebody is when it is told to.
type slowly struct {
	asked chan tenant.Claim
	say   chan tenant.Identity
}

func (slowly) Identify(tenant.Claim) (who tenant.Identity, known bool, refusal *call.Refusal) {
	return tenant.Identity{}, false, nil
}

func (s slowly) Ask(ctx context.Context, c tenant.Claim) (tenant.Identity, *call.Refusal) {
	s.asked <- c
	select {
	case who := <-s.say:
		return who, nil
	case <-ctx.Done():
		return tenant.Identity{}, &call.Refusal{Kind: call.Unavailable, Reason: "LATE"}
	}
}

// TestStrangersWait: a call of somebody who is not known waits with its messages until it is, and
// one that has left meanwhile does no harm. Nor does a gateway that ends meanwhile.
func TestStrangersWait(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		by := slowly{asked: make(chan tenant.Claim), say: make(chan tenant.Identity)}
		f := &front{capability: gatewaytest.NewCapability("b1")}
		f.gateway = gatewaytest.Start(t, gatewaytest.Options{
			Fleets:     []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.capability.Serve(t, backend).Addr}}},
			Identifier: by,
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
			if c := <-by.asked; c.Credential != "secret" {
				t.Errorf("%s: asked for %+v", name, c)
			}
			by.say <- acme
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			left, leave := context.WithCancel(bearer(t.Context(), "secret"))
			go func() { ended <- do(left) }()
			<-by.asked
			leave()
			if err := <-ended; status.Code(err) != codes.Canceled {
				t.Errorf("%s that leaves: %v", name, err)
			}
			by.say <- acme
		}
		go func() { _ = calls["unary"](bearer(t.Context(), "secret")) }()
		<-by.asked // it waits when the gateway ends
	})
}
