package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// BenchmarkFrontDoors makes the same call with each protocol, one after another, over HTTP/2. Client and
// backend are included.
func BenchmarkFrontDoors(b *testing.B) {
	backend := gatewaytest.NewCapability("b1").Serve(b, call.Doc)
	g := gatewaytest.Start(b, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{backend.Addr}}}})
	client := g.HTTP2(b)
	for _, d := range webDialects {
		b.Run(d.name, func(b *testing.B) {
			b.ReportAllocs()
			c := newWebClient(client, g.URL(""), d.options...)
			for b.Loop() {
				if _, err := c.invoke.CallUnary(b.Context(),
					connect.NewRequest(request(gatewaytest.Echo, `{}`))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("JSON API", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			resp, err := client.Post(g.URL("/v1/capabilities/caps/invoke"), "application/json",
				strings.NewReader(`{"tool_name":"echo","args":{}}`))
			check.Must(b, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				b.Fatal(resp.Status)
			}
		}
	})
}
