package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestWrongProtocol: cleartext to a TLS port gets a response in words, the reverse is logged, and the command
// line explains both as probe does.
func TestWrongProtocol(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	cert, key := certtest.PEMOf(t, certtest.New(t).Server(t))
	var files configMap
	files.put(t, map[string]string{"crt": string(cert), "key": string(key)})
	secureFile := writeConfig(t, configOf(fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", files.file("crt"),
		files.file("key")), backend))
	secure, public, _ := serve(t, nil, "--config", secureFile)
	status, body := page(t, "http://"+public+"/v1/capabilities")
	if status != http.StatusBadRequest || !strings.Contains(body, "this port speaks TLS") ||
		!strings.Contains(body, `"reason":"TLS_REQUIRED"`) {
		t.Errorf("got %d %s", status, body)
	}
	secure.stderr.wait(t, secure, "HTTP in cleartext at a port that requires TLS")
	// A client with HTTP/2 prior knowledge reports the text of the GOAWAY.
	if err := as(t, dial(t, public), "", gatewaytest.Echo); !strings.Contains(fmt.Sprint(err), "this port "+
		"speaks TLS") {
		t.Errorf("a client of gRPC in cleartext: %v", err)
	}
	exit, _, errs := runProgram(t, nil, "invoke", "--addr", "http://"+public, "caps", gatewaytest.Echo)
	if exit != exitUnreachable || !strings.Contains(errs, public+" speaks TLS: use --tls, or --tls-ca FILE") {
		t.Errorf("got %d %s", exit, errs)
	}
	if n := strings.Count(secure.stderr.String(), "HTTP in cleartext at a port"); n != 1 {
		t.Errorf("logged %d times at once", n)
	}

	open, public, _ := serve(t, nil, "--config", writeConfig(t, configOf("", backend)))
	exit, _, errs = runProgram(t, nil, "invoke", "--addr", public, "--tls", "caps", gatewaytest.Echo)
	if exit != exitUnreachable || !strings.Contains(errs, public+" does not speak TLS: leave out --tls") {
		t.Errorf("got %d %s", exit, errs)
	}
	patient := &net.Dialer{Timeout: check.Patience}
	if conn, err := tls.DialWithDialer(patient, "tcp", public, &tls.Config{MinVersion: tls.VersionTLS12}); err == nil {
		_ = conn.Close()
		t.Error("it speaks TLS")
	}
	open.stderr.wait(t, open, "TLS at a cleartext port")
}

// TestWrongPort: errors of commands at the wrong one of a gateway's two ports name the right one, addresses may
// be URLs, and gRPC over HTTP/1.1 is rejected in words, with a request id.
func TestWrongPort(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	_, public, admin := serve(t, nil, "--config", writeConfig(t, configOf("policies: {}", backend)))
	for _, test := range []struct {
		line, want string
		exit       int
	}{
		{"invoke --addr http://" + public + "/ caps " + gatewaytest.Echo, "", 0},
		{"invoke --addr http://" + public + " --tls caps " + gatewaytest.Echo, "write https://" + public,
			exitUnreachable},
		{"invoke --addr ftp://" + public + " caps " + gatewaytest.Echo,
			"want host:port, http://host:port or https://host:port", exitUsage},
		{"invoke --addr localhost caps " + gatewaytest.Echo, "want host:port, http://host:port or https://host:port",
			exitUsage},
		{"invoke --addr https://" + public + " caps " + gatewaytest.Echo, "does not speak TLS", exitUnreachable},
		{"invoke --addr " + admin + " caps " + gatewaytest.Echo, admin + " is the admin API of a gateway",
			exitUnreachable},
		{"engines list --addr " + admin, admin + " is the admin API of a gateway", exitRefused},
		{"status --admin " + public, public + " is the public port of a gateway", exitUnreachable},
		{"drain h:1 --admin " + public, public + " is the public port of a gateway", exitUnreachable},
		{"policy list --admin " + public, public + " is the public port of a gateway", exitRefused},
	} {
		exit, out, errs := runProgram(t, nil, strings.Fields(test.line)...)
		if !strings.Contains(errs, test.want) || (exit != test.exit && test.exit != exitUnreachable) {
			t.Errorf("capgate %s: %d %s%s; want %d %s", test.line, exit, out, errs, test.exit, test.want)
		}
	}
	for _, addr := range []string{public, admin} {
		resp, err := clienttest.HTTP.Post("http://"+addr+"/selu.capability.Capability/Invoke", "application/grpc",
			strings.NewReader("x")) //nolint:noctx // a request on loopback
		check.Must(t, err)
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if id := resp.Header.Get("X-Request-Id"); resp.StatusCode != http.StatusUnsupportedMediaType || id == "" ||
			!strings.Contains(string(text), id) || !strings.Contains(string(text), "HTTP_VERSION_UNSUPPORTED") {
			t.Errorf("%s: %d %s; id %+v", addr, resp.StatusCode, text, id)
		}
	}
}

// TestToolTypo: if arguments are checked, the error of an unknown tool lists the tools that the caller may
// call.
func TestToolTypo(t *testing.T) {
	t.Parallel()
	manifest := writeConfig(t, "id: caps\nimage: i\ntools:\n"+
		"- {name: echo, description: d, input_schema: {type: object, properties: {a: {type: string}, b: {type: "+
		"integer}}}, recommended_policy: allow}\n"+
		"- {name: erase, description: d, input_schema: {type: object}, recommended_policy: block}\n")
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	file := writeConfig(t, strings.Replace(configOf("", backend), "policy: allow",
		"policy: allow, validate_arguments: true, manifest: "+manifest, 1))
	_, public, _ := serve(t, nil, "--config", file)
	exit, _, errs := runProgram(t, nil, "invoke", "--addr", public, "caps", "ecoh")
	if exit != exitRefused || !strings.Contains(errs, "TOOL_UNKNOWN") ||
		!strings.Contains(errs, `did you mean "echo"?; you may call echo`) || strings.Contains(errs, "erase") {
		t.Errorf("got %d %s", exit, errs)
	}
	exit, _, errs = runProgram(t, nil, "invoke", "--addr", public, "caps", "echo", `{"a": 1, "b": "x"}`)
	if exit != exitRefused || !strings.Contains(errs, `"/a"`) || !strings.Contains(errs, `"/b"`) {
		t.Errorf("got %d %s", exit, errs)
	}
}
