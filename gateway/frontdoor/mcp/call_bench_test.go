package mcp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// nowhere is a response that is not sent.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)               {}

// BenchmarkCall calls a tool with arguments and a result of 1 KiB, as the SDKs do, without the rest of the gateway.
func BenchmarkCall(b *testing.B) {
	const kib = 1 << 10
	text := `{"text":"` + strings.Repeat("x", kib) + `"}`
	reply, err := proto.Marshal(&docpb.InvokeResponse{ResultJson: []byte(text)})
	check.Must(b, err)
	h := mcp.New(mcp.Config{Conn: &asking{}, Catalog: &asking{}, Authenticate: allowed, Invokes: allowed,
		Lists: allowed, Tenant: func(*http.Request) string { return "acme" },
		Caller: func(*http.Request) string { return "acme" },
		Unary: func(_ context.Context, _ *relay.Request, _ []byte, r *relay.Response) {
			r.Message = append(r.Message[:0], reply...)
		}})
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for revision, meta := range map[string]string{"2026-07-28": meta, "2025-11-25": ""} {
		b.Run(revision, func(b *testing.B) {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":` + text +
				meta + `}}`
			header := http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {revision},
				"Accept": {"application/json, text/event-stream"}, "X-Request-Id": {"1"}}
			if meta != "" {
				header["Mcp-Method"], header["Mcp-Name"] = []string{"tools/call"}, []string{"caps__echo"}
			}
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, mcp.Path, nil)
			check.Must(b, err)
			r.Header, r.ContentLength = header, int64(len(body))
			in := strings.NewReader("")
			w := nowhere{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(body)
				r.Body = readOnly{in}
				clear(w.header)
				h.ServeHTTP(w, r)
			}
			if w.header.Get("Content-Type") != "application/json" {
				b.Error(w.header)
			}
		})
	}
}

// readOnly is a body that is not closed.
type readOnly struct{ *strings.Reader }

// Close implements io.Closer.
func (readOnly) Close() error { return nil }
