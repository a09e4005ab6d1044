package gateway_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

func TestOutcomes(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		ctx := t.Context()
		for _, test := range []struct {
			name          string
			run           func() error
			code, outcome string
			level         string
		}{
			{"answer", func() error {
				return second(f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)))
			}, "OK", "success",
				"INFO"},
			{"tool error", func() error { return second(f.client.Invoke(ctx, request(gatewaytest.Fail, `{}`))) }, "OK",
				"tool_error", "INFO"},
			{"stream", func() error {
				return second(f.client.StreamInvoke(ctx, request(gatewaytest.Echo, `{}`)))
			}, "OK",
				"success", "INFO"},
			{"streamed tool error", func() error {
				return second(f.client.StreamInvoke(ctx, request(gatewaytest.Fail, `{}`)))
			},
				"OK", "tool_error", "INFO"},
			{"stream without done", func() error {
				return second(f.client.StreamInvoke(ctx, request(gatewaytest.Cut, `{}`)))
			},
				"OK", "incomplete", "WARN"},
			{"upload", func() error {
				return second(f.client.Upload(to(ctx, "caps"), gatewaytest.File{Name: "a"}))
			}, "OK",
				"success", "INFO"},
			{"gRPC error", func() error {
				return second(f.client.Invoke(ctx, request(gatewaytest.Break, `{}`)))
			}, "DATA_LOSS",
				"", "WARN"},
		} {
			before := len(f.gateway.Log.Calls(t, 0))
			if err := test.run(); (err == nil) != (test.code == "OK") {
				t.Errorf("%s: %v", test.name, err)
			}
			line := f.gateway.Log.Calls(t, before+1)[before]
			if line.Text("code") != test.code || line.Text("outcome") != test.outcome ||
				line.Text("level") != test.level {
				t.Errorf("%s: logged %v", test.name, line)
			}
		}
		samples := f.gateway.Metrics(t)
		for labels, want := range map[string]float64{
			`method="Invoke",outcome="success"`:          1,
			`method="Invoke",outcome="tool_error"`:       1,
			`method="StreamInvoke",outcome="incomplete"`: 1,
		} {
			name := `capgate_calls_total{capability="caps",code="OK",` + labels + `}`
			if samples[name] != want {
				t.Errorf("%s is %v, want %v", name, samples[name], want)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestLineOfACall(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Doc)
	req := request(gatewaytest.Echo, `{"a":1}`)
	resp, err := f.client.Invoke(metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "req-7"), req)
	check.Must(t, err)
	line := f.gateway.Log.Calls(t, 1)[0]
	for key, want := range map[string]any{
		"level": "INFO", "method": "Invoke", "dialect": "live", "capability": "caps", "tool": "echo",
		"backend": f.backend.Addr,
		"code":    "OK", "outcome": "success", "tenant": "default", "request_id": "req-7",
		"bytes_in": float64(5 + proto.Size(req)), "bytes_out": float64(5 + proto.Size(resp)),
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	for _, key := range []string{"duration_ms", "forwarded_ms", "first_byte_ms"} {
		if ms, ok := line[key].(float64); !ok || ms <= 0 {
			t.Errorf("%s is %v; ok %+v; ms %+v", key, line[key], ok, ms)
		}
	}
	post(t, f.gateway.HTTP1(t), f.gateway, "caps", `{"tool_name":"echo"}`, "X-Request-Id", "req-8")
	if line := f.gateway.Log.Calls(t, 2)[1]; line.Text("request_id") != "req-8" || line.Text("dialect") != "doc" {
		t.Errorf("over REST: %v", line)
	}
}

// TestOneLineACall: each call has one log line and is counted once, whatever its path through the gateway.
func TestOneLineACall(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Doc)
	ctx := to(t.Context(), "caps")
	calls := 0
	for _, run := range []func(){
		func() { _, _ = f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)) },
		func() { _, _ = f.client.StreamInvoke(ctx, request(gatewaytest.Echo, `{}`)) },
		func() { _, _, _ = f.client.Healthcheck(ctx) },
		func() { _, _ = f.client.Upload(ctx, gatewaytest.File{Name: "a"}) },
		func() { _, _ = f.client.Upload(ctx, gatewaytest.File{Name: gatewaytest.RefusedFile}) },
		func() { _, _ = f.client.Upload(to(t.Context(), "nope"), gatewaytest.File{}) },
		func() { _, _ = f.client.Download(ctx, "b1-1") },
		func() { _, _ = f.client.Invoke(to(t.Context(), "nope"), request(gatewaytest.Echo, `{}`)) },
		func() { post(t, f.gateway.HTTP1(t), f.gateway, "caps", `{"tool_name":"echo"}`) },
		func() { post(t, f.gateway.HTTP2(t), f.gateway, "caps", `{"tool_name":"fail"}`) },
		func() { post(t, f.gateway.HTTP1(t), f.gateway, "nope", `{"tool_name":"echo"}`) },
	} {
		run()
		calls++
		if lines := f.gateway.Log.Calls(t, calls); len(lines) != calls {
			t.Fatalf("call %d: %d lines, the last is %v", calls, len(lines), lines[len(lines)-1])
		}
	}
	samples := f.gateway.Metrics(t)
	if got := sum(samples, "capgate_calls_total"); got != float64(calls) {
		t.Errorf("counted %v calls, want %d", got, calls)
	}
	if got := samples[`capgate_calls_in_flight{capability="caps"}`]; got != 0 {
		t.Errorf("%v calls are in flight", got)
	}
	f.gateway.Stop(t)
	if lines := f.gateway.Log.Calls(t, calls); len(lines) != calls {
		t.Errorf("%d lines for %d calls", len(lines), calls)
	}
}

// TestOneLineForAnAbandonedUpload: an upload that its caller cancels is one call too, translated or not.
func TestOneLineForAnAbandonedUpload(t *testing.T) {
	t.Parallel()
	for _, backend := range []call.Dialect{call.Doc, call.Live} {
		t.Run(backend.String(), func(t *testing.T) {
			t.Parallel()
			f := startFront(t, call.Doc, backend)
			ctx, cancel := context.WithCancel(to(t.Context(), "caps"))
			stream, err := docpb.NewCapabilityClient(f.conn).UploadInputArtifact(ctx)
			check.Must(t, err)
			check.Must(t, stream.Send(&docpb.UploadInputArtifactChunk{Data: make([]byte, 1000), Filename: "f"}))
			f.capability.WaitSeen(t, 1)
			cancel()
			f.gateway.Log.Calls(t, 1)
			f.gateway.Stop(t)
			if lines := f.gateway.Log.Calls(t, 1); len(lines) != 1 || lines[0].Text("code") != "CANCELLED" {
				t.Errorf("logged %v", lines)
			}
		})
	}
}

func sum(samples map[string]float64, name string) (total float64) {
	for key, value := range samples {
		if strings.HasPrefix(key, name+"{") {
			total += value
		}
	}
	return total
}

func TestMetricsAfterCalls(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	req := request(gatewaytest.Echo, `{"some":"arguments"}`)
	var out float64
	const calls = 25
	for range calls {
		resp, err := f.client.Invoke(t.Context(), req)
		check.Must(t, err)
		out += float64(5 + proto.Size(resp))
	}
	_, _ = f.client.Invoke(to(t.Context(), "two"), req)
	_, _ = f.client.Invoke(to(t.Context(), "two"), request(gatewaytest.Echo, `{}`))
	go func() { _, _ = f.client.Invoke(t.Context(), request(gatewaytest.Block, `{}`)) }()
	check.Received(t, f.capability.Blocked(), "the call")
	f.gateway.Log.Calls(t, calls+2)
	samples := f.gateway.Metrics(t)
	for name, want := range map[string]float64{
		`capgate_calls_total{capability="caps",code="OK",method="Invoke",outcome="success"}`:    calls,
		`capgate_calls_total{capability="",code="INVALID_ARGUMENT",method="Invoke",outcome=""}`: 2,
		`capgate_calls_in_flight{capability="caps"}`:                                            1,
		`capgate_call_duration_seconds_count{capability="caps",code="OK"}`:                      calls,
		`capgate_call_duration_seconds_bucket{capability="caps",code="OK",le="+Inf"}`:           calls,
		`capgate_call_bytes_total{capability="caps",direction="in"}`: float64(calls * (5 +
			proto.Size(req))),
		`capgate_call_bytes_total{capability="caps",direction="out"}`: out,
		`capgate_refusals_total{reason="ROUTING_KEY_CONFLICT"}`:       2,
		`capgate_log_lines_dropped_total`:                             0,
		`capgate_upstream_connections`:                                1,
	} {
		if got, ok := samples[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v; ok %+v", name, got, want, ok)
		}
	}
	f.capability.Release()
	f.gateway.Log.Calls(t, calls+3)
	if got := f.gateway.Metrics(t)[`capgate_calls_in_flight{capability="caps"}`]; got != 0 {
		t.Errorf("%v calls in flight", got)
	}
}

// TestNothingOfTheContentIsRecorded: the content of calls is in no log line, metric, page or error of the
// gateway.
func TestNothingOfTheContentIsRecorded(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		const canary = "c4n4ry"
		ctx := metadata.AppendToOutgoingContext(t.Context(), "custom", canary, "authorization", "Bearer "+canary,
			"raw-bin", canary)
		var texts []string // text of the gateway itself
		tell := func(err error) {
			if err != nil && errorInfo(err).GetDomain() == "capgate.dev" {
				texts = append(texts, fmt.Sprint(err, errorInfo(err)))
			}
		}
		for _, tool := range []string{gatewaytest.Echo, gatewaytest.Fail, gatewaytest.Cut, gatewaytest.Break} {
			req := request(tool, `{"a":"`+canary+`"}`)
			req.ConfigJson, req.SessionId, req.ThreadId = []byte(`{"token":"`+canary+`"}`), canary, canary
			tell(second(f.client.Invoke(ctx, req)))
			tell(second(f.client.StreamInvoke(ctx, req)))
			tell(second(f.client.Invoke(to(ctx, "two"), req)))
			req.CapabilityId = ""
			tell(second(f.client.Invoke(ctx, req)))
			req.CapabilityId = "nope"
			tell(second(f.client.StreamInvoke(ctx, req)))
		}
		tell(second(f.client.Upload(to(ctx, "caps"), gatewaytest.File{Name: canary, MIME: canary,
			Data: []byte(canary)})))
		tell(second(f.client.Download(to(ctx, "caps"), canary)))
		malformed := []byte("\x0a\x06" + canary + "\x12\x7f" + canary)
		path, _ := dialect.Path(call.Invoke, client)
		tell(f.conn.Invoke(ctx, path, &malformed, new([]byte), grpc.ForceCodec(rawCodec{})))
		for _, body := range []string{
			`{"tool_name":"echo","config":{"token":"` + canary + `"},"args":{"a":"` + canary + `"}}`,
			`{"tool_name":"echo","config":{"token":"` + canary + `"},"args":`,
			`{"tool_name":"echo","config":"` + canary + `"}`,
			`{"tool_name":"echo","config_json":"` + canary + `!"}`,
		} {
			resp, answer := post(t, f.gateway.HTTP1(t), f.gateway, "caps", body, "Authorization", "Bearer "+canary)
			if resp.StatusCode != http.StatusOK {
				texts = append(texts, answer)
			}
		}
		if len(texts) < 15 {
			t.Errorf("only %d refusals", len(texts))
		}
		pages := map[string]string{"refusals": strings.Join(texts, "\n")}
		for _, path := range []string{"/metrics", "/readyz?verbose", "/"} {
			_, pages[path] = f.gateway.Admin(t, path)
		}
		f.gateway.Stop(t)
		pages["log"] = f.gateway.Log.String()
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			if at := strings.Index(pages[name], canary); at >= 0 {
				t.Errorf("%s: …%s…", name, pages[name][max(0, at-200):min(len(pages[name]), at+50)])
			}
		}
	})
}
