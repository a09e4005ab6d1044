package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// usages returns how much of their limits tenants use.
func (s *statusCommand) usages(ctx context.Context) (*capgatepb.ListUsageResponse, error) {
	all := new(capgatepb.ListUsageResponse)
	err := pages(func(token string) (string, error) {
		page := new(capgatepb.ListUsageResponse)
		err := s.port.do(ctx, http.MethodGet, "/v1/limits?"+url.Values{"page_token": {token}}.Encode(), nil, page)
		all.Gateway, all.Tenants = page.GetGateway(), append(all.Tenants, page.GetTenants()...)
		return page.GetNextPageToken(), err
	})
	return all, err
}

// printTenants shows tenants to people, on the terminal that out is, if it is one.
func printTenants(w io.Writer, all *capgatepb.ListUsageResponse, out any) {
	fmt.Fprintf(w, "replica %s, redis %s, %s with limits\n\n", all.GetGateway().GetReplica(),
		all.GetGateway().GetRedis(),
		count(len(all.GetTenants()), "tenant"))
	table := newTable("TENANT", "LIMIT", "APPLIES TO", "USED", "MAX", "HELD HERE").on(out, "")
	for _, t := range all.GetTenants() {
		name := untrusted.Beginning(t.GetTenant(), maxWhy)
		if t.GetShadow() {
			name += " (shadow)"
		}
		for _, l := range t.GetLimits() {
			table.row(name, l.GetLimit(), limitOf(l), fmt.Sprintf("%.0f", l.GetUsed()), l.GetMax(), l.GetHeld())
		}
	}
	table.print(w)
}

// limitOf describes the calls that a limit applies to.
func limitOf(l *capgatepb.LimitInUse) string {
	var words []string
	if l.GetCapability() != "" || l.GetTool() != "" {
		words = append(words, orAny(l.GetCapability())+"/"+orAny(l.GetTool()))
	}
	if l.GetPer() != "" {
		each := "each " + l.GetPer()
		if l.GetApart() > 0 {
			each = "each of " + count(int(l.GetApart()), l.GetPer())
		}
		words = append(words, each)
	}
	return orDash(strings.Join(words, ", "))
}

func orAny(name string) string {
	if name == "" {
		return "*"
	}
	return name
}
