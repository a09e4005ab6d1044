package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/certtest"
	"github.com/capgate/capgate/internal/gatewaytest"
)

// TestWrongProtocol: cleartext to a port that speaks TLS is answered in words, the reverse is logged, and the command
// line tells both as probe does.
func TestWrongProtocol(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	cert, key := certtest.PEMOf(t, certtest.New(t).Server(t))
	var files configMap
	files.put(t, map[string]string{"crt": string(cert), "key": string(key)})
	secureFile := writeConfig(t, configOf(fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", files.file("crt"), files.file("key")), backend))
	secure, public, _ := serve(t, nil, "--config", secureFile)
	status, body := page(t, "http://"+public+"/v1/capabilities")
	if status != http.StatusBadRequest || !strings.Contains(body, "this port speaks TLS") {
		t.Errorf("%d %s", status, body)
	}
	secure.stderr.wait(t, secure, "a client speaks HTTP in cleartext to the port that speaks TLS")
	exit, _, errs := runProgram(t, nil, "invoke", "--addr", public, "caps", gatewaytest.Echo)
	if exit != exitTransport || !strings.Contains(errs, public+" speaks TLS: ask it with --tls, or --tls-ca FILE") {
		t.Errorf("%d %s", exit, errs)
	}
	if n := strings.Count(secure.stderr.String(), "in cleartext to the port"); n != 1 {
		t.Errorf("logged %d times at once", n)
	}

	open, public, _ := serve(t, nil, "--config", writeConfig(t, configOf("", backend)))
	exit, _, errs = runProgram(t, nil, "invoke", "--addr", public, "--tls", "caps", gatewaytest.Echo)
	if exit != exitTransport || !strings.Contains(errs, public+" does not speak TLS: ask it without --tls") {
		t.Errorf("%d %s", exit, errs)
	}
	if conn, err := tls.Dial("tcp", public, &tls.Config{MinVersion: tls.VersionTLS12}); err == nil {
		_ = conn.Close()
		t.Error("it speaks TLS")
	}
	open.stderr.wait(t, open, "a client speaks TLS to the port that speaks cleartext")
}

// TestToolTypo: where arguments are checked, a tool that there is not is answered with those that the caller may call.
func TestToolTypo(t *testing.T) {
	t.Parallel()
	manifest := writeConfig(t, "id: caps\nimage: i\ntools:\n"+
		"- {name: echo, description: d, input_schema: {type: object, properties: {a: {type: string}, b: {type: integer}}}, recommended_policy: allow}\n"+
		"- {name: erase, description: d, input_schema: {type: object}, recommended_policy: block}\n")
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	file := writeConfig(t, strings.Replace(configOf("", backend), "policy: allow", "policy: allow, validate_arguments: true, manifest: "+manifest, 1))
	_, public, _ := serve(t, nil, "--config", file)
	exit, _, errs := runProgram(t, nil, "invoke", "--addr", public, "caps", "ecoh")
	if exit != exitTransport || !strings.Contains(errs, "SCHEMA_UNKNOWN") || !strings.Contains(errs, `did you mean "echo"?; it has echo`) || strings.Contains(errs, "erase") {
		t.Errorf("%d %s", exit, errs)
	}
	exit, _, errs = runProgram(t, nil, "invoke", "--addr", public, "caps", "echo", `{"a": 1, "b": "x"}`)
	if exit != exitTransport || !strings.Contains(errs, `"/a"`) || !strings.Contains(errs, `"/b"`) {
		t.Errorf("%d %s", exit, errs)
	}
}
