package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/manifest"
)

// TestHostileTemplates: templates beyond the limits of a server are left out, and so are keys of other kinds.
func TestHostileTemplates(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newFeatures(t, old)
			sent := []string{`{"name":"long","uriTemplate":"x:` + strings.Repeat("{}", 9) + `"}`}
			var want []string
			for i := range 2 * manifest.MaxTemplates {
				sent = append(sent, fmt.Sprintf(`{"name":"t","uriTemplate":"x:%d{a}","uri":"file:///x"}`, i))
				if i < manifest.MaxTemplates {
					want = append(want, fmt.Sprintf(`{"name":"t","uriTemplate":"x:%d{a}"}`, i))
				}
			}
			r.hostile("resources/templates/list", "", says(200, "application/json",
				`{"jsonrpc":"2.0","id":ID,"result":{"resourceTemplates":[`+strings.Join(sent, ",")+`]}}`))
			r.hostile("resources/list", "", says(200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":`+
				`{"resources":[{"name":"r","uri":"a:b","uriTemplate":"file:///{a}"}]}}`))
			r.hostile("prompts/list", "", says(200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":`+
				`{"prompts":[{"name":"é:p","uri":"é:p"},{"name":"p","uri":"a:b","uriTemplate":"a:{b}"}]}}`))
			w := startInside(t, nil, r.URL)
			w.wantResult(t, request(manifest.ListFeatures, `{}`), `{"prompts":[{"name":"p"}],"resources":[{"name":"r",`+
				`"uri":"a:b"}],"templates":[`+strings.Join(want, ",")+`]}`)
		})
	}
}
