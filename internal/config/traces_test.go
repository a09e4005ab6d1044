package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/config"
)

func TestTraces(t *testing.T) {
	t.Parallel()
	const fleet = "\nfleets: [{capability: a, backends: ['b:1']}]\n"
	for text, want := range map[string]config.Traces{
		"": {Sample: 0.01, Follow: true, Service: "capgate", Queue: 4096,
			Timeout: 10 * time.Second},
		`traces: {endpoint: "otel:1"}`: {Endpoint: "otel:1", Sample: 0.01, Follow: true, Service: "capgate",
			Queue: 4096, Timeout: 10 * time.Second},
		`traces: {endpoint: "https://otel.example/x", tls: {ca_file: /t.pem}, headers_file: /h, sample: 0,
 follow: false, service: gate, queue: 200, timeout: 1s}`: {
			Endpoint: "https://otel.example/x", TLS: config.BackendTLS{Enabled: true, CAFile: "/t.pem"},
			HeadersFile: "/h", Service: "gate", Queue: 200, Timeout: time.Second},
	} {
		c, err := config.Parse("f", []byte(text+fleet))
		if err != nil || c.Traces != want {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for text, want := range map[string][]string{
		"traces: {endpoint: otel, sample: 2, queue: 1, timeout: 2m, ratio: 1}": {
			`f:1: traces.endpoint: "otel" is not an address; write host:port, as in "10.0.0.7:50051"`,
			`f:1: traces.sample: "2" is not possible; it must be a number from 0 to 1`,
			`f:1: traces.queue: "1" is not possible; it must be a whole number from 100 to 1000000`,
			`f:1: traces.timeout: "2m" is not possible; it must be a duration from 100ms to 1m`,
			`f:1: traces.ratio: unknown field`},
		"traces: {}": {`f:1: traces.endpoint: required: the collector: host:port for OTLP over gRPC`},
		"traces: {endpoint: 'http://u:secret@otel'}": {`f:1: traces.endpoint: must have neither a user nor a query`},
		"traces: {endpoint: 'grpc://secret'}":        {`f:1: traces.endpoint: is neither host:port, for OTLP`},
		"traces: {endpoint: 'http://otel', tls: {}}": {`f:1: traces.tls: the endpoint is not https`},
	} {
		_, err := config.Parse("f", []byte(text+fleet))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Fatalf("%s: %v", text, err)
		}
		matchLines(t, strings.Split(err.Error(), "\n"), want)
	}
}
