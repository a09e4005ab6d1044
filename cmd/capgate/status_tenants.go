package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/capgate/capgate/gateway/admin"
)

// showTenants shows how much of their limits tenants use.
func (s *statusCommand) showTenants(ctx context.Context, before string) error {
	all := admin.TenantsPage{Tenants: []admin.TenantUsage{}}
	for token := ""; ; {
		var page admin.TenantsPage
		if err := s.port.do(ctx, http.MethodGet, "/v1/limits?"+url.Values{"page_token": {token}}.Encode(), nil,
			&page); err != nil {
			return err
		}
		all.Gateway, all.Tenants = page.Gateway, append(all.Tenants, page.Tenants...)
		if token = page.Next; token == "" {
			break
		}
	}
	if s.json {
		line, err := json.Marshal(all)
		if err == nil {
			_, err = fmt.Fprintf(s.std.out, "%s\n", line)
		}
		return err
	}
	_, err := fmt.Fprint(s.std.out, before+tenantsTable(all))
	return err
}

// tenantsTable shows tenants to people.
func tenantsTable(all admin.TenantsPage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "replica %s, redis %s, %s with limits\n\n", all.Gateway.Replica, all.Gateway.Redis,
		count(len(all.Tenants), "tenant"))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tLIMIT\tOF\tUSED\tMAX\tHELD")
	for _, t := range all.Tenants {
		name := beginning(t.Tenant, maxWhy)
		if t.Shadow {
			name += " (shadow)"
		}
		for _, l := range t.Limits {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%d\t%d\n", name, l.Limit, limitOf(&l), l.Used, l.Max, l.Held)
		}
	}
	_ = w.Flush() // into memory
	return b.String()
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
