package header_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/header"
)

// TestConnect: headers about HTTP, the protocol or the browser reach no backend over Connect, and a backend sets none
// that would control a browser.
func TestConnect(t *testing.T) {
	t.Parallel()
	both := []string{"cache-control", "connection", "date", "keep-alive", "pragma", "te", "trailer",
		"transfer-encoding", "upgrade", "accept-encoding", "connect-timeout-ms", "content-type", "grpc-timeout",
		"proxy-authorization", "sec-fetch-site", ":path"}
	aside := []string{"accept", "cookie", "dnt", "expect", "forwarded", "host", "if-none-match", "origin", "priority",
		"purpose", "range", "referer", "upgrade-insecure-requests", "user-agent", "x-capgate-outcome", "x-grpc-web",
		"x-user-agent"}
	withheld := []string{"access-control-allow-origin", "age", "allow", "alt-svc", "clear-site-data", "critical-ch",
		"cross-origin-opener-policy", "digest", "etag", "expires", "last-modified", "link", "location", "nel",
		"origin-agent-cluster", "permissions-policy", "referrer-policy", "refresh", "report-to", "reporting-endpoints",
		"server", "server-timing", "service-worker-allowed", "set-cookie", "set-cookie2", "sourcemap",
		"speculation-rules", "strict-transport-security", "supports-loading-mode", "timing-allow-origin", "trailer-x",
		"vary", "via", "www-authenticate", "x-accel-redirect", "x-content-type-options", "x-dns-prefetch-control",
		"x-frame-options", "x-permitted-cross-domain-policies", "x-sourcemap", "x-xss-protection"}
	neither := []string{"authorization", "baggage", "idempotency-key", "retry-after", "traceparent", "x-agent-id",
		"x-api-key", "x-capability-id", "x-request-id", "x-session-id", "x-of-a-tool"}
	for _, name := range slices.Concat(both, aside, withheld, neither) {
		canonical := http.CanonicalHeaderKey(name)
		if got := header.MetadataName(canonical); got != name {
			t.Errorf("the name of %s in metadata is %s", canonical, got)
		}
		for _, use := range []header.Use{header.NoMetadata, header.NoHeader} {
			if header.Is(canonical, use) != header.Is(name, use) {
				t.Errorf("%s and %s have different uses", canonical, name)
			}
		}
		if got, want := header.Is(name, header.NoMetadata), slices.Contains(slices.Concat(both, aside),
			name); got != want {
			t.Errorf("%s of a request is no metadata: %t", name, got)
		}
		if got, want := header.Is(name, header.NoHeader), slices.Contains(slices.Concat(both, withheld),
			name); got != want {
			t.Errorf("%s of a backend is withheld: %t", name, got)
		}
	}
}

// TestUsesAgree: what the JSON API, MCP and signed URLs give their calls, Connect gives them as well, and no row stands
// twice.
func TestUsesAgree(t *testing.T) {
	t.Parallel()
	for use := header.ToCall; use <= header.Read; use <<= 1 {
		names := header.Names(use)
		if len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) || len(names) == 0 {
			t.Errorf("headers with the use %b: %q", use, names)
		}
	}
	for _, f := range header.With(header.ToCall | header.ToMCP | header.ToSigned) {
		if header.Is(f.Metadata, header.NoMetadata) || header.Is(f.Metadata, header.NoHeader) {
			t.Errorf("%s is metadata of a call, but not over Connect", f.Name)
		}
	}
}

func TestIsASCII(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{"": true, " a~": true, "a\nb": false, "\x7f": false, "ä": false} {
		if header.IsASCII(v) != want {
			t.Errorf("%q: %t", v, !want)
		}
	}
}
