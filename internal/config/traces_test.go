package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

func TestTraces(t *testing.T) {
	t.Parallel()
	const fleet = "\nfleets: [{capability: a, backends: ['b:1']}]\n"
	for text, want := range map[string]tracing.Config{
		"":                             {Sample: 0.01, Follow: true},
		`traces: {endpoint: "otel:1"}`: {Endpoint: "otel:1", Sample: 0.01, Follow: true},
		`traces: {endpoint: "https://otel.example/x", tls: {ca_file: /t.pem}, headers_file: /h, sample: 0,
 follow: false}`: {
			Endpoint: "https://otel.example/x", Files: tlsfiles.Client{Enabled: true, CAFile: "/t.pem"},
			HeadersFile: "/h"},
		`traces: {endpoint: "otel:1", link: "https://v/?a#/t/{trace_id}#b"}`: {Endpoint: "otel:1", Sample: 0.01,
			Follow: true, Link: "https://v/?a#/t/{trace_id}#b"},
	} {
		c, err := config.Parse("f", []byte(text+fleet))
		if err != nil || !reflect.DeepEqual(c.Traces, want) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for text, want := range map[string][]string{
		"traces: {endpoint: otel, sample: 2, ratio: 1}": {
			`f:1: traces.endpoint: "otel" is not an address; write host:port, as in "10.0.0.7:50051"`,
			`f:1: traces.sample: "2" is not possible; it must be a number from 0 to 1`,
			`f:1: traces.ratio: unknown field`},
		"traces: {}": {`f:1: traces.endpoint: required: the collector: host:port for OTLP over gRPC`},
		"traces: {endpoint: 'http://u:secret@otel'}": {`f:1: traces.endpoint: must have neither a user, a query`},
		"traces: {endpoint: 'grpc://secret'}": {
			`f:1: traces.endpoint: is not an HTTP URL; write it whole, as in http://collector:4318`},
		"traces: {endpoint: 'http://otel', tls: {}}": {`f:1: traces.tls: the endpoint is not https`},
		`traces: {endpoint: 'otel:1', link: "https://v/#secret\e{trace_id}"}`: {
			`f:1: traces.link: is not an HTTP URL; write it whole, as in https://traces.example.com/t/{trace_id}`},
		"traces: {endpoint: 'otel:1', link: 'https://secret@v#{trace_id}'}": {
			`f:1: traces.link: must have neither a user nor a fragment`},
	} {
		_, err := config.Parse("f", []byte(text+fleet))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Fatalf("%s: %v", text, err)
		}
		matchLines(t, strings.Split(err.Error(), "\n"), want)
	}
}
