package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestMaxConnectionAge: the configured age applies to clients over HTTP/2 and HTTP/1.1, its grace to remaining
// calls, and a change of it needs a restart.
func TestMaxConnectionAge(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b")
	backend := capability.Serve(t, call.Doc)
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	write := func(ages string) {
		check.Must(t, os.WriteFile(file, []byte(configOf(ages, backend.Addr)), 0o600))
	}
	write("max_connection_age: 1s\nmax_connection_age_grace: 500ms")
	p, public, admin := serve(t, nil, "--config", file)
	ended := make(chan error, 1)
	go func() {
		_, err := dial(t, public).Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "caps",
			ToolName: gatewaytest.Block})
		ended <- err
	}()
	check.Received(t, capability.Blocked(), "the call")
	c, err := rawhttp2.Dial(public)
	check.Must(t, err)
	defer c.Close()
	check.Must(t, c.Greet())
	if code, err := c.WaitGoAway(); err != nil || code != 0 {
		t.Errorf("GOAWAY %d, %v", code, err)
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: check.Patience}
	defer client.CloseIdleConnections()
	check.Until(t, "the end of a connection over HTTP/1.1", func() (bool, string) {
		resp, err := client.Post("http://"+public+"/v1/capabilities/caps/invoke", "application/json",
			strings.NewReader(`{"tool_name":"echo"}`))
		check.Must(t, err)
		_, err = io.Copy(io.Discard, resp.Body) // otherwise the connection is not reused
		check.Must(t, err)
		check.Must(t, resp.Body.Close())
		return resp.Close, resp.Status
	})
	if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Unavailable {
		t.Errorf("a call that is left after the grace: %v", err)
	}
	write("max_connection_age: 2s\nmax_connection_age_grace: 500ms")
	p.signal(t, syscall.SIGHUP)
	waitPage(t, "http://"+admin+"/readyz", `"needs_restart":["max_connection_age"]`)
	p.stop(t)
}
