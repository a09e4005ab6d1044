package header

import (
	"net/http"
	"slices"
	"strings"
)

// Use is a set of uses of a header by the front doors.
type Use uint16

// Uses. A door with its own protocol has further headers, see Door.
const (
	ToCall       Use = 1 << iota // a JSON request's: forwarded as metadata of its calls
	ToMCP                        // an MCP request's: forwarded as metadata of its calls
	ToSigned                     // a signed URL's, which signs everything else: forwarded as metadata of its call
	ToInbox                      // an inbox request's: forwarded to the JSON API; must not identify a caller
	ToPlayground                 // a playground request's: forwarded to the JSON API
	Ordinary                     // a JSON request's: does not affect the response, so the call may use the fast path
	NoMetadata                   // a Connect request's: of HTTP, the protocol or the browser, and no metadata
	NoHeader                     // a Connect response's: controls browsers, or belongs to the protocol
	Stripped                     // a call's: not forwarded to backends (clientaddr.Reserved)
	Sent                         // pages of other sites may send it
	Read                         // pages of other sites may read it in responses
)

// Field is a header with its uses.
type Field struct {
	Name     string
	Uses     Use
	Metadata string // name in the metadata of calls
	key      string // name in http.Header
	family   Use    // uses of its family
}

// fields is the table of headers. Each has the uses of its row and of its family.
//
//nolint:gochecknoglobals // a table
var fields = slices.Concat([]Field{
	// The request, its body and its response.
	{Name: "Accept", Uses: Sent | ToInbox | ToPlayground},
	{Name: "Accept-Encoding", Uses: ToInbox | Ordinary},
	{Name: "Accept-Language", Uses: Ordinary},
	{Name: "Allow", Uses: Read | NoHeader},
	{Name: "Authorization", Uses: Sent},
	{Name: "Connection", Uses: Ordinary | NoMetadata | NoHeader},
	{Name: "Content-Disposition", Uses: Sent | Read},
	{Name: "Content-Encoding", Uses: Sent | ToInbox},
	{Name: "Content-Length", Uses: ToInbox | Ordinary},
	{Name: "Content-Type", Uses: Sent | ToInbox},
	{Name: "Cookie", Uses: Stripped | NoMetadata},
	{Name: "Digest", Uses: Sent | Read | NoHeader},
	{Name: "Dnt", Uses: Ordinary | NoMetadata},
	{Name: "ETag", Uses: Read | NoHeader},
	{Name: "Grpc-Timeout", Uses: Sent},
	{Name: "Idempotency-Key", Uses: Sent},
	{Name: "Idempotency-Replayed", Uses: Read},
	{Name: "If-None-Match", Uses: Sent | ToInbox},
	{Name: "Last-Event-ID", Uses: Sent | ToInbox},
	{Name: "Location", Uses: Read | NoHeader},
	{Name: "Origin", Uses: Ordinary | NoMetadata},
	{Name: "Prefer", Uses: Sent},
	{Name: "Preference-Applied", Uses: Read},
	{Name: "RateLimit", Uses: Read},
	{Name: "RateLimit-Limit", Uses: Read},
	{Name: "RateLimit-Policy", Uses: Read},
	{Name: "RateLimit-Remaining", Uses: Read},
	{Name: "RateLimit-Reset", Uses: Read},
	{Name: "Referer", Uses: Ordinary | NoMetadata},
	{Name: "Repr-Digest", Uses: Sent | Read},
	{Name: "Request-Timeout", Uses: Sent},
	{Name: "Retry-After", Uses: Read},
	{Name: "Sec-Fetch-Dest", Uses: Ordinary},
	{Name: "Sec-Fetch-Mode", Uses: Ordinary},
	{Name: "Sec-Fetch-Site", Uses: Ordinary},
	{Name: "Te", Uses: ToInbox | NoMetadata | NoHeader},
	{Name: "User-Agent", Uses: Ordinary | NoMetadata},
	{Name: "WWW-Authenticate", Uses: Read | NoHeader},
	// The trace.
	{Name: "Baggage", Uses: ToCall | ToMCP | ToSigned | Ordinary},
	{Name: "Traceparent", Uses: ToCall | ToMCP | ToSigned | ToInbox | Ordinary | Sent | ToPlayground},
	{Name: "Tracestate", Uses: ToCall | ToMCP | ToSigned | ToInbox | Ordinary | Sent | ToPlayground},
	{Name: "X-Request-Id", Uses: ToCall | ToMCP | ToSigned | ToInbox | Ordinary | Sent | Read | ToPlayground},
	// The caller.
	{Name: "X-Agent-Id", Uses: ToCall | ToMCP | Ordinary | Stripped | Sent},
	{Name: "X-Api-Key", Uses: ToCall | Sent},
	{Name: "X-Capgate-Signature", Uses: Stripped},
	{Name: "X-Tenant-Id", Uses: Stripped},
	{Name: "X-User-Id", Uses: ToCall | ToMCP | Ordinary | Stripped | Sent},
	// The call.
	{Name: "X-Approval-Id", Uses: ToCall | Stripped | Sent},
	{Name: "X-Approval-Wait", Uses: ToCall | Stripped | Sent},
	{Name: "X-Capability-Id", Uses: ToCall | Sent},
	{Name: "X-Capgate-Outcome", Uses: Stripped | Read},
	{Name: "X-Session-Id", Uses: ToCall | Ordinary | Sent | Read},
	{Name: "X-Thread-Id", Uses: Ordinary | Sent},
	// The client's address, which trusted proxies name.
	{Name: "Forwarded", Uses: Ordinary | Stripped | NoMetadata},
	{Name: "X-Forwarded-For", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-Host", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-Port", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-Proto", Uses: Ordinary | Stripped},
	{Name: "X-Real-Ip", Uses: Ordinary | Stripped},
},
	// HTTP and browsers.
	each(NoMetadata|NoHeader, "Cache-Control", "Date", "Keep-Alive", "Pragma", "Trailer", "Transfer-Encoding",
		"Upgrade"),
	each(NoMetadata, "Expect", "Host", "Priority", "Purpose", "Range", "Upgrade-Insecure-Requests", "X-Grpc-Web",
		"X-User-Agent"),
	each(NoHeader, "Age", "Alt-Svc", "Clear-Site-Data", "Critical-Ch", "Expires", "Last-Modified", "Link", "Nel",
		"Origin-Agent-Cluster", "Permissions-Policy", "Referrer-Policy", "Refresh", "Report-To", "Reporting-Endpoints",
		"Server", "Server-Timing", "Service-Worker-Allowed", "Set-Cookie", "Set-Cookie2", "Sourcemap",
		"Speculation-Rules", "Strict-Transport-Security", "Supports-Loading-Mode", "Timing-Allow-Origin",
		"Vary", "Via", "X-Sourcemap"),
)

// families is the table of uses by prefix of a header's name.
//
//nolint:gochecknoglobals // a table
var families = slices.Concat(
	each(NoMetadata|NoHeader, ":", "Connect-", "Content-", "Grpc-", "Proxy-", "Sec-"),
	each(NoMetadata, "Accept", "If-", "X-Capgate-"),
	each(NoHeader, "Accept-", "Access-Control-", "Cross-Origin-", "Trailer-", "X-Accel-", "X-Content-", "X-Dns-",
		"X-Frame-", "X-Permitted-", "X-Xss-"),
)

// each returns fields with the same uses.
func each(u Use, names ...string) (all []Field) {
	for _, name := range names {
		all = append(all, Field{Name: name, Uses: u, Metadata: strings.ToLower(name)})
	}
	return all
}

// byName has the fields by their names in http.Header, and by those in metadata.
var byName = func() map[string]*Field { //nolint:gochecknoglobals // a table
	all := make(map[string]*Field, 2*len(fields))
	for i := range fields {
		f := &fields[i]
		f.Metadata, f.key = strings.ToLower(f.Name), http.CanonicalHeaderKey(f.Name)
		f.family = ofFamily(f.Metadata)
		all[f.Metadata], all[f.key] = f, f
	}
	return all
}()

// Key returns the canonical name of a header. For known headers it does not allocate.
func Key(name string) string {
	if f := byName[name]; f != nil {
		return f.key
	}
	return http.CanonicalHeaderKey(name)
}

// Lookup returns the field for a name in http.Header or metadata. An unknown header has no uses.
func Lookup(name string) Field {
	if f := byName[name]; f != nil {
		return *f
	}
	return Field{Name: name}
}

// MetadataName returns the name in metadata for a name in http.Header. For known headers it does not allocate.
func MetadataName(name string) string {
	if f := byName[name]; f != nil {
		return f.Metadata
	}
	return strings.ToLower(name)
}

// Is reports whether a header has a use, by itself or by its family. name is the name in http.Header or in metadata.
func Is(name string, u Use) bool {
	if f := byName[name]; f != nil {
		return (f.Uses|f.family)&u != 0
	}
	return ofFamily(name)&u != 0
}

// ofFamily returns the uses of a header by its family.
func ofFamily(name string) (uses Use) {
	for i := range families {
		if f := &families[i]; strings.HasPrefix(name, f.Metadata) || strings.HasPrefix(name, f.Name) {
			uses |= f.Uses
		}
	}
	return uses
}

// Has reports whether a field has a use.
func (f Field) Has(u Use) bool { return f.Uses&u != 0 }

// In returns the first value of a field in the headers of a request; empty means none.
func (f *Field) In(h http.Header) string { return First(h, f.key) }

// With returns the fields with a use.
func With(u Use) (all []Field) {
	for _, f := range fields {
		if f.Has(u) {
			all = append(all, f)
		}
	}
	return all
}

// Names returns the names of the fields with a use.
func Names(u Use) []string {
	var names []string
	for _, f := range With(u) {
		names = append(names, f.Name)
	}
	return names
}
