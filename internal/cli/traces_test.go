package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestTracesOfAProcess: the traces section of the file applies, and the last spans are sent when the process
// ends.
func TestTracesOfAProcess(t *testing.T) {
	t.Parallel()
	collector := oteltest.Start(t)
	dir := t.TempDir()
	headers, file := filepath.Join(dir, "headers"), filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(headers, []byte("# of the collector\nAuthorization: Basic c2VjcmV0\n\n"), 0o600))
	check.Must(t, os.WriteFile(file, []byte(configOf("traces: {endpoint: '"+collector.Addr+"', sample: 1, "+
		"headers_file: "+headers+"}\nreplicas: {id: gw-7}",
		gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr)), 0o600))
	p, public, admin := serve(t, []string{"OTEL_SERVICE_NAME=edge",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}, "--config", file)
	const calls = 20
	ctx := metadata.AppendToOutgoingContext(t.Context(), "baggage", "a=b")
	client := dial(t, public)
	for range calls {
		if _, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
			ArgsJson: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if body := waitPage(t, "http://"+admin+"/metrics", "capgate_trace_spans_exported_total"); !strings.Contains(body,
		`capgate_trace_spans_dropped_total{reason="full"} 0`) {
		t.Errorf("got %s", body)
	}
	check.Must(t, os.WriteFile(headers, []byte("Authorization: Basic b3RoZXI=\n"), 0o600))
	waitPage(t, "http://"+admin+"/readyz", `"needs_restart":["traces.headers_file"]`)
	p.signal(t, syscall.SIGTERM)
	if exit := p.wait(t); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
	all := collector.Spans(t, 2*calls)
	of := all[0].Resource
	if len(all) != 2*calls || of["service.name"] != "edge" || of["service.instance.id"] != "gw-7" ||
		of["deployment.environment.name"] != "test" || of["service.version"] == "" {
		t.Errorf("%d spans of %v", len(all), of)
	}
	for _, h := range collector.Headers(t) {
		if h != "Basic c2VjcmV0" {
			t.Errorf("authorization %q", h)
		}
	}
	if strings.Contains(p.stderr.String(), "c2VjcmV0") {
		t.Error("the credential is in the log")
	}
}

// TestInvalidHeadersAreNotQuoted: the error names the place and not the header, which may be the secret.
func TestInvalidHeadersAreNotQuoted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"hunter2", "a b: hunter2", "hunter2:", ": hunter2", "grpc-timeout: hunter2",
		"a: hunter2\x01"} {
		dir := t.TempDir()
		headers, file := filepath.Join(dir, "headers"), filepath.Join(dir, "capgate.yaml")
		check.Must(t, os.WriteFile(headers, []byte("\n"+text+"\n"), 0o600))
		check.Must(t, os.WriteFile(file, []byte(configOf("traces: {endpoint: 'a:1', headers_file: "+headers+"}",
			"127.0.0.1:1")), 0o600))
		exit, stdout, stderr := runProgram(t, nil, "check", "--config", file)
		if said := stdout + stderr; exit == 0 ||
			!strings.Contains(said, "traces.headers_file: "+headers+": line 2 is not a header") ||
			strings.Contains(said, "hunter2") {
			t.Errorf("%q: status %d, %s", text, exit, said)
		}
	}
}
