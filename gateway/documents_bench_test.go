package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/catalog"
)

// BenchmarkDocuments requests one caller's OpenAPI document repeatedly, with and without If-None-Match.
func BenchmarkDocuments(b *testing.B) {
	for _, capabilities := range []int{10, 100} {
		authors := map[string]catalog.Declaration{}
		for c := range capabilities {
			var tools []manifest.Tool
			for n := range 10 {
				tools = append(tools, tool(b, fmt.Sprintf("tool%d", n)))
			}
			authors[fmt.Sprintf("caps%03d", c)] = catalog.Declaration{Policy: call.Allow,
				Manifest: &manifest.Manifest{Tools: tools}}
		}
		g := cataloged(b, &ruled{}, authors)
		client := g.HTTP2(b)
		etag := ""
		for _, again := range []string{"whole", "not modified"} {
			b.Run(fmt.Sprintf("%d tools, %s", 10*capabilities, again), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, g.URL("/openapi.json"),
						http.NoBody)
					check.Must(b, err)
					if again != "whole" {
						req.Header.Set("If-None-Match", etag)
					}
					resp, err := client.Do(req)
					check.Must(b, err)
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					etag = resp.Header.Get("ETag")
				}
			})
		}
	}
}
