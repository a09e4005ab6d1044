package fleets_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/router"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestFleetsAreFound: a query finds fleets by any part of their visible text, on all pages, and fleets with failing
// backends are first.
func TestFleetsAreFound(t *testing.T) {
	t.Parallel()
	var more []router.FleetConfig
	for i := range 200 {
		more = append(more, router.FleetConfig{Capability: fmt.Sprintf("c%03d", i),
			Backends: router.Addrs("10.1.0.1:1", fmt.Sprintf("10.2.0.%d:1", i), "10.1.0.3:1")})
	}
	url, _, routing := start(t, more...)
	routing.SetHealth(health.NewSnapshot("c150", []health.Backend{{Addr: "10.1.0.1:1", State: health.Up},
		{Addr: "10.2.0.150:1", State: health.Up}, {Addr: "10.1.0.3:1", State: health.Down, Reason: "Refused by Host"}}))
	for query, want := range map[string]string{
		"query=C19&page_size=3":                  "c190 c191 c192 of 10, 0 fail",
		"query=10.2.0.77":                        "c077 of 1, 0 fail",
		"query=c15+HOST":                         "c150 of 1, 1 fail",
		"query=none":                             " of 0, 0 fail",
		"state=failing":                          "c150 of 1, 1 fail",
		"state=down&query=10.1.0.3":              "c150 of 1, 1 fail",
		"state=down&query=10.1.0.1":              " of 0, 0 fail",
		"state=up&query=c0":                      " of 0, 0 fail",
		"order_by=failing&page_size=3":           "c150 c000 c001 of 202, 1 fail",
		"order_by=failing&query=c14&page_size=1": "c140 of 10, 0 fail",
		"order_by=capability&page_size=1":        "c000 of 202, 1 fail",
	} {
		status, page := ask[capgatepb.ListFleetsResponse](t, "GET", url+"/v1/fleets?"+query, "")
		var names []string
		for _, f := range page.GetFleets() {
			names = append(names, f.GetCapability())
		}
		if got := fmt.Sprintf("%s of %d, %d fail", strings.Join(names, " "), page.GetTotalSize(),
			page.GetFailingCount()); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", query, status, got, want)
		}
	}
	for query, want := range map[string]string{
		"capability=c150&backends=2":             "10.1.0.3:1 10.1.0.1:1 of 3, 1 fail",
		"query=10.2.0.150&backends=2":            "10.2.0.150:1 10.1.0.3:1 of 3, 1 fail",
		"capability=c150&backends=9":             "10.1.0.3:1 10.1.0.1:1 10.2.0.150:1 of 3, 1 fail",
		"capability=c150":                        "10.1.0.1:1 10.2.0.150:1 10.1.0.3:1 of 3, 1 fail",
		"capability=c150&state=down&backends=1":  "10.1.0.3:1 of 3, 1 fail",
		"capability=c151&backends=1&query=10.1.": "10.1.0.1:1 of 3, 0 fail",
	} {
		_, page := ask[capgatepb.ListFleetsResponse](t, "GET", url+"/v1/fleets?"+query, "")
		var addrs []string
		f := page.GetFleets()[0]
		for _, b := range f.GetBackends() {
			addrs = append(addrs, b.GetAddr())
		}
		if got := fmt.Sprintf("%s of %d, %d fail", strings.Join(addrs, " "), f.GetBackendCount(),
			f.GetFailingCount()); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	// Pages of the order by failures have every fleet once.
	seen, token := map[string]bool{}, ""
	for pages := 0; pages == 0 || token != ""; pages++ {
		_, page := ask[capgatepb.ListFleetsResponse](t, "GET",
			url+"/v1/fleets?order_by=failing&page_size=50&page_token="+token, "")
		for _, f := range page.GetFleets() {
			if seen[f.GetCapability()] {
				t.Errorf("%s twice", f.GetCapability())
			}
			seen[f.GetCapability()] = true
		}
		token = page.GetNextPageToken()
	}
	if len(seen) != 202 {
		t.Errorf("%d fleets", len(seen))
	}
	for _, query := range []string{"state=dead", "order_by=latency", "backends=-1", "query=" +
		strings.Repeat("q", 257)} {
		if status, p := ask[problem.Problem](t, "GET", url+"/v1/fleets?"+query, ""); status != 400 ||
			p.Reason != "INVALID_QUERY" {
			t.Errorf("%s: %d %+v", query, status, p)
		}
	}
}
