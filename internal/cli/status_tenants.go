package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/capgate/capgate/gateway/admin"
)

// usages returns how much of their limits tenants use.
func (s *statusCommand) usages(ctx context.Context) (admin.TenantsPage, error) {
	all := admin.TenantsPage{Tenants: []admin.TenantUsage{}}
	err := pages(func(token string) (string, error) {
		var page admin.TenantsPage
		err := s.port.do(ctx, http.MethodGet, "/v1/limits?"+url.Values{"page_token": {token}}.Encode(), nil, &page)
		all.Gateway, all.Tenants = page.Gateway, append(all.Tenants, page.Tenants...)
		return page.Next, err
	})
	return all, err
}

// printTenants shows tenants to people.
func printTenants(w io.Writer, all admin.TenantsPage) {
	fmt.Fprintf(w, "replica %s, redis %s, %s with limits\n\n", all.Gateway.Replica, all.Gateway.Redis,
		count(len(all.Tenants), "tenant"))
	table := newTable("TENANT", "LIMIT", "APPLIES TO", "USED", "MAX", "HELD HERE")
	for _, t := range all.Tenants {
		name := beginning(t.Tenant, maxWhy)
		if t.Shadow {
			name += " (shadow)"
		}
		for _, l := range t.Limits {
			table.row(name, l.Limit, limitOf(&l), fmt.Sprintf("%.0f", l.Used), l.Max, l.Held)
		}
	}
	table.print(w)
}

// limitOf describes the calls that a limit applies to.
func limitOf(l *admin.LimitUsage) string {
	var words []string
	if l.Capability != "" || l.Tool != "" {
		words = append(words, orAny(l.Capability)+"/"+orAny(l.Tool))
	}
	if l.Per != "" {
		words = append(words, fmt.Sprintf("each of %s", count(l.Apart, l.Per)))
	}
	return orDash(strings.Join(words, ", "))
}

func orAny(name string) string {
	if name == "" {
		return "*"
	}
	return name
}
