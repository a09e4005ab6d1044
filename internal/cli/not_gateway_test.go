package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestAdminPortThatAsksForCredentials: the error of a command for callers recognizes an admin API that requires
// a credential.
func TestAdminPortThatAsksForCredentials(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	id, secret := tenant.NewCredential()
	_, _, admin := serve(t, asksOperators, "--config", writeConfig(t, configOf("operators: {keys: [{id: "+id+
		", hash: '"+tenant.HashOf(secret, nil).String()+"', name: ops, roles: [admin]}]}", backend)))
	for _, line := range []string{"invoke --addr " + admin + " caps " + gatewaytest.Echo, "engines list --addr " +
		admin} {
		exit, _, errs := runProgram(t, nil, strings.Fields(line)...)
		if exit != exitRefused || !strings.Contains(errs, admin+
			" is the admin API of a gateway; calls go to its public port") {
			t.Errorf("capgate %s: %d %s", line, exit, errs)
		}
	}
}

// TestAnotherServer: the error of a command at a server that is no gateway has the server's response and where
// its address is set, and prints no text of grpc-go.
func TestAnotherServer(t *testing.T) {
	t.Parallel()
	for status, exits := range map[int]int{200: exitRefused, 302: exitRefused, 401: exitRefused, 403: exitRefused,
		404: exitRefused, 500: exitRefused, 502: exitUnreachable, 503: exitUnreachable} {
		other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>hello")
		}))
		other.Config.Protocols = new(http.Protocols)
		other.Config.Protocols.SetHTTP1(true)
		other.Config.Protocols.SetUnencryptedHTTP2(true)
		other.Start()
		t.Cleanup(other.Close)
		addr := other.Listener.Addr().String()
		for line, setting := range map[string]string{
			"invoke --addr " + addr + " caps echo": "--addr", "engines list --addr " + addr: "--addr",
			"policy list --admin " + addr: "--admin", "status --admin " + addr: "--admin",
			"drain h:1 --admin " + addr: "--admin",
		} {
			exit, out, errs := runProgram(t, nil, strings.Fields(line)...)
			if exit != exits || !strings.Contains(errs, addr) || !strings.Contains(errs, "gateway") ||
				!strings.Contains(errs, setting) || strings.Contains(out+errs, "content-type") ||
				strings.Contains(out+errs, "unexpected HTTP") {
				t.Errorf("%d, capgate %s: %d %s%s", status, line, exit, out, errs)
			}
		}
	}
}
