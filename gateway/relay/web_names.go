package relay

import (
	"net/http"
	"strings"
)

// Names of headers are in lower case in HTTP/2, and canonical in http.Header (net/textproto).

// headerNames holds common names in both forms. Others cost an allocation each.
var headerNames = func() (t struct{ lower, canonical map[string]string }) {
	const common = "Accept Accept-Charset Accept-Encoding Accept-Language Accept-Ranges " +
		"Access-Control-Allow-Credentials Access-Control-Allow-Headers Access-Control-Allow-Methods " +
		"Access-Control-Allow-Origin Access-Control-Expose-Headers Access-Control-Max-Age " +
		"Access-Control-Request-Headers Access-Control-Request-Method Age Allow Authorization Cache-Control " +
		"Connect-Accept-Encoding Connect-Content-Encoding Connect-Protocol-Version Connect-Timeout-Ms Content-Digest " +
		"Content-Disposition Content-Encoding Content-Language Content-Length Content-Location Content-Range " +
		"Content-Security-Policy Content-Type Cookie Date Digest Etag Expect Expires Forwarded From " +
		"Grpc-Accept-Encoding Grpc-Encoding Grpc-Message Grpc-Metadata-Content-Type Grpc-Status " +
		"Grpc-Status-Details-Bin Grpc-Timeout Host Idempotency-Key If-Match If-Modified-Since If-None-Match If-Range " +
		"If-Unmodified-Since Last-Event-Id Last-Modified Link Location Max-Forwards Mcp-Method Mcp-Name " +
		"Mcp-Protocol-Version Mcp-Session-Id Origin Priority Proxy-Authenticate Proxy-Authorization Range Referer " +
		"Referrer-Policy Refresh Repr-Digest Retry-After Sec-Ch-Ua Sec-Ch-Ua-Mobile Sec-Ch-Ua-Platform " +
		"Sec-Fetch-Dest Sec-Fetch-Mode Sec-Fetch-Site Server Set-Cookie Strict-Transport-Security Te Traceparent " +
		"Tracestate Trailer User-Agent Vary Via Www-Authenticate X-Accel-Buffering X-Api-Key X-Content-Type-Options " +
		"X-Forwarded-For X-Forwarded-Host X-Forwarded-Port X-Forwarded-Proto X-Frame-Options X-Grpc-Web X-Real-Ip " +
		"X-Request-Id X-User-Agent"
	t.lower, t.canonical = map[string]string{}, map[string]string{}
	for name := range strings.FieldsSeq(common) {
		lower := strings.ToLower(name)
		t.lower[name], t.canonical[lower] = lower, name
	}
	return t
}()

// canonicalName converts a name in lower case to the form of http.Header.
func canonicalName(lower string) string {
	if name, ok := headerNames.canonical[lower]; ok {
		return name
	}
	return http.CanonicalHeaderKey(lower)
}

// lowerName converts a name to the form of HTTP/2.
func lowerName(name string) string {
	if lower, ok := headerNames.lower[name]; ok {
		return lower
	}
	return strings.ToLower(name)
}
