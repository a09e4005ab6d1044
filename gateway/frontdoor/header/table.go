package header

import (
	"net/http"
	"strings"
)

// Use is what the front doors do with a header: a set of bits.
type Use uint16

// The uses. A door of its own protocol has further headers, see Door.
const (
	ToCall   Use = 1 << iota // of a JSON request: metadata of its calls
	ToMCP                    // of an MCP request: metadata of its calls
	ToSigned                 // of a request with a signed URL, whose signature covers everything else: metadata of its call
	ToInbox                  // of a request to the inbox: goes on to the JSON API. None tells a caller
	Ordinary                 // of a JSON request: asks nothing of the response, so that the call may take the direct path
	Stripped                 // of a call: no backend gets it (clientaddr.Reserved)
	Sent                     // pages of other sites may send it
	Read                     // pages of other sites may read it in responses
)

// Field is a header.
type Field struct {
	Name     string
	Uses     Use
	Metadata string // its name in the metadata of calls
	key      string // its name in http.Header
}

// fields are the headers that all doors know. Each has the uses of its row and no other.
//
//nolint:gochecknoglobals // a table
var fields = [...]Field{
	// The request, its body and its response.
	{Name: "Accept", Uses: Sent | ToInbox},
	{Name: "Accept-Encoding", Uses: ToInbox | Ordinary},
	{Name: "Accept-Language", Uses: Ordinary},
	{Name: "Allow", Uses: Read},
	{Name: "Authorization", Uses: Sent},
	{Name: "Connection", Uses: Ordinary},
	{Name: "Content-Disposition", Uses: Sent | Read},
	{Name: "Content-Encoding", Uses: Sent | ToInbox},
	{Name: "Content-Length", Uses: ToInbox | Ordinary},
	{Name: "Content-Type", Uses: Sent | ToInbox},
	{Name: "Cookie", Uses: Stripped},
	{Name: "Digest", Uses: Sent | Read},
	{Name: "Dnt", Uses: Ordinary},
	{Name: "ETag", Uses: Read},
	{Name: "Grpc-Timeout", Uses: Sent},
	{Name: "Idempotency-Key", Uses: Sent},
	{Name: "Idempotency-Replayed", Uses: Read},
	{Name: "If-None-Match", Uses: Sent | ToInbox},
	{Name: "Last-Event-ID", Uses: Sent | ToInbox},
	{Name: "Location", Uses: Read},
	{Name: "Origin", Uses: Ordinary},
	{Name: "Prefer", Uses: Sent},
	{Name: "Preference-Applied", Uses: Read},
	{Name: "RateLimit", Uses: Read},
	{Name: "RateLimit-Limit", Uses: Read},
	{Name: "RateLimit-Policy", Uses: Read},
	{Name: "RateLimit-Remaining", Uses: Read},
	{Name: "RateLimit-Reset", Uses: Read},
	{Name: "Referer", Uses: Ordinary},
	{Name: "Repr-Digest", Uses: Sent | Read},
	{Name: "Request-Timeout", Uses: Sent},
	{Name: "Retry-After", Uses: Read},
	{Name: "Sec-Fetch-Dest", Uses: Ordinary},
	{Name: "Sec-Fetch-Mode", Uses: Ordinary},
	{Name: "Sec-Fetch-Site", Uses: Ordinary},
	{Name: "Te", Uses: ToInbox},
	{Name: "User-Agent", Uses: Ordinary},
	{Name: "WWW-Authenticate", Uses: Read},
	// The trace.
	{Name: "Baggage", Uses: ToCall | ToMCP | ToSigned | Ordinary},
	{Name: "Traceparent", Uses: ToCall | ToMCP | ToSigned | ToInbox | Ordinary | Sent},
	{Name: "Tracestate", Uses: ToCall | ToMCP | ToSigned | ToInbox | Ordinary | Sent},
	{Name: "X-Request-Id", Uses: ToCall | ToMCP | ToSigned | ToInbox | Ordinary | Sent | Read},
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
	{Name: "Forwarded", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-For", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-Host", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-Port", Uses: Ordinary | Stripped},
	{Name: "X-Forwarded-Proto", Uses: Ordinary | Stripped},
	{Name: "X-Real-Ip", Uses: Ordinary | Stripped},
}

// byName has the fields by their names in http.Header, and by those in metadata.
var byName = func() map[string]*Field { //nolint:gochecknoglobals // a table
	all := make(map[string]*Field, 2*len(fields))
	for i := range fields {
		f := &fields[i]
		f.Metadata, f.key = strings.ToLower(f.Name), http.CanonicalHeaderKey(f.Name)
		all[f.Metadata], all[f.key] = f, f
	}
	return all
}()

// Key returns the name of a header as http.Header has it. That of a field takes no memory.
func Key(name string) string {
	if f := byName[name]; f != nil {
		return f.key
	}
	return http.CanonicalHeaderKey(name)
}

// Lookup returns the field of a name, as http.Header or metadata has it. That of an unknown header has no use.
func Lookup(name string) Field {
	if f := byName[name]; f != nil {
		return *f
	}
	return Field{Name: name}
}

// Has reports whether a field has a use.
func (f Field) Has(u Use) bool { return f.Uses&u != 0 }

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
