package gatewaytest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// Services is an admin API with a few services only.
type Services struct {
	Conn *grpc.ClientConn
	URL  string
}

// Operator authenticates every request as an operator with roles for some tenants; "" stands for all tenants.
type Operator struct {
	Roles   operator.Roles
	Tenants []string
}

// Authenticate implements guard.Authenticator.
func (o Operator) Authenticate(*http.Request) (*operator.Identity, bool, *call.Refusal) {
	identity := &operator.Identity{Name: "ann", Via: operator.ViaKey}
	for _, id := range o.Tenants {
		identity.Grant(id, o.Roles)
	}
	return identity, true, nil
}

// ServeOperators serves the services until the test ends.
func ServeOperators(t testing.TB, all ...admin.Service) *Services {
	t.Helper()
	return serveOperators(t, nil, all)
}

// ServeGuarded serves the services until the test ends, to operators that by authenticates.
func ServeGuarded(t testing.TB, by guard.Authenticator, all ...admin.Service) *Services {
	t.Helper()
	return serveOperators(t, guard.New(guard.Config{Authenticators: []guard.Authenticator{by}}), all)
}

func serveOperators(t testing.TB, by *guard.Guard, all []admin.Service) *Services {
	t.Helper()
	services, err := admin.NewServices(all...)
	check.Must(t, err)
	routes, err := gateway.NewAdmin(gateway.AdminConfig{API: services.Mount, Guard: by})
	check.Must(t, err)
	web := httptest.NewUnstartedServer(routes)
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetHTTP1(true)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	check.Cleanup(t, web.Close)
	conn, err := clienttest.NewConn("passthrough:///"+web.Listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return &Services{Conn: conn, URL: web.URL}
}

// Ask sends a JSON request and returns the status and body. header holds alternating names and values.
func (s *Services) Ask(t testing.TB, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	check.Must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}
