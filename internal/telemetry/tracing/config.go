package tracing

import (
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// Config configures the collector and the sampling. Endpoint is required. OTEL_SERVICE_NAME of the environment is the
// service.name of the spans, and OTEL_RESOURCE_ATTRIBUTES adds others.
type Config struct {
	// The collector: host:port for OTLP over gRPC, or a URL for OTLP over HTTP, with /v1/traces as the default path.
	// Leave traces out for no tracing.
	Endpoint string `yaml:"endpoint" kind:"collector" required:""`
	// TLS to the collector. Default cleartext for host:port, the system's authorities for https.
	Files tlsfiles.Client `yaml:"tls"`
	// Headers of each request, such as a credential, one "name: value" a line.
	HeadersFile string `yaml:"headers_file" kind:"file"`
	// Traced fraction of the calls that begin a trace here.
	Sample float64 `yaml:"sample" min:"0" max:"1" default:"0.01"`
	// true: a caller's traceparent decides; false: sample alone does.
	Follow bool `yaml:"follow" default:"true"`
	// URL at which people see a trace, with {trace_id} in place of its id, as in
	// https://traces.example.com/t/{trace_id}. The last calls in the admin API have it. Default none.
	Link string `yaml:"link"`

	TLS      *tls.Config       // of Files; nil: cleartext for host:port and http, the system's authorities for https
	Headers  map[string]string // of HeadersFile: sent with every request; may be secrets
	Version  string            // service.version
	Instance string            // service.instance.id
	Queue    int               // bound of waiting spans; further ones are dropped. Default 4096
	Timeout  time.Duration     // of one request; default 10s
	Delay    time.Duration     // greatest wait for a full batch; default 1s
	Log      *slog.Logger      // logs the loss and the return of the collector; nil: discarded
}

// traceID is the placeholder of Config.Link.
const traceID = "{trace_id}"

// Check checks that TLS has an effect, and the template of links.
func (c *Config) Check(at strictyaml.At) {
	if c.Link != "" {
		// Some viewers route by the fragment. It is checked as a part of the path.
		link := strings.NewReplacer(traceID, "0", "#", "/").Replace(c.Link)
		_, err := weburl.Parse(link, "https://traces.example.com/t/"+traceID)
		switch {
		case err != nil:
			at.Fail("link", "%s", err)
		case len(c.Link) > 1024:
			at.Fail("link", "is longer than 1024 bytes")
		case !strings.Contains(c.Link, traceID):
			at.Fail("link", "it lacks "+traceID)
		}
	}
	if c.Files.Enabled && strings.HasPrefix(c.Endpoint, "http:") {
		at.Fail("tls", "the endpoint is not https")
	}
}
