package fleets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/admin/fleets"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	"github.com/capgate/capgate/router"
)

// kept are drains of one replica.
type kept struct {
	routing *router.Router
	err     error

	mu    sync.Mutex
	all   map[drains.Key]router.Drain
	alone drains.Key // a drain of which other replicas do not know
}

func (k *kept) Set(_ context.Context, keys []drains.Key, drained bool, by string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return false, k.err
	}
	for _, key := range keys {
		if delete(k.all, key); drained {
			k.all[key] = router.Drain{Capability: key.Capability, Addr: key.Addr, By: by,
				Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		}
	}
	var all []router.Drain
	for _, d := range k.all {
		all = append(all, d)
	}
	k.routing.SetDrains(all)
	return true, nil
}

func (k *kept) Remaining(key drains.Key) drains.Remaining {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, drained := k.all[key]
	return drains.Remaining{Since: d.Since, By: d.By, Drained: drained, Shared: key != k.alone, Calls: 3, Replicas: 2,
		Unacknowledged: 1}
}

const (
	addr1 = "10.0.0.1:50051"
	addr2 = "[2001:db8::1]:50051"
)

// start serves the API of a gateway with two fleets, and answers with its address.
func start(t *testing.T, more ...router.FleetConfig) (url string, k *kept, routing *router.Router) {
	t.Helper()
	all := append([]router.FleetConfig{
		{Capability: "weather", Backends: []router.BackendConfig{{Addr: addr1, Zone: "a", Limit: 8},
			{Addr: addr2, Weight: 7}}},
		{Capability: "news", Backends: []router.BackendConfig{{Addr: addr1, Session: "s1"}, {Addr: addr2, Weight: -1}}},
	}, more...)
	table, err := router.NewTable(router.Config{Fleets: all, Limits: router.NewLimits(router.LimitsConfig{})}, nil)
	check.Must(t, err)
	routing = router.New(table)
	k = &kept{routing: routing, all: map[drains.Key]router.Drain{}}
	service := fleets.New(fleets.Config{
		Router: routing, Drains: k,
		Gateway: func() *capgatepb.RespondingReplica {
			return &capgatepb.RespondingReplica{Replica: "me", Redis: "ok"}
		},
		Source: func(_, addr string) string { return map[string]string{addr1: "config"}[addr] },
	})
	return gatewaytest.ServeOperators(t, service).URL, k, routing
}

// ask makes a request, whose body is JSON unless it is empty, and decodes the answer.
func ask[T any](t *testing.T, method, url, body string) (status int, answer *T) {
	t.Helper()
	answer = new(T)
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	check.Must(t, err)
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		if m, ok := any(answer).(proto.Message); ok {
			err = protojson.Unmarshal(text, m)
		} else {
			err = json.Unmarshal(text, answer)
		}
	}
	if err != nil {
		t.Fatalf("%s %s: %s %q: %v", method, url, resp.Status, text, err)
	}
	return resp.StatusCode, answer
}

// fleet asks for one.
func fleet(t *testing.T, url, capability string) *capgatepb.Fleet {
	t.Helper()
	status, all := ask[capgatepb.ListFleetsResponse](t, "GET", url+"/v1/fleets?capability="+capability, "")
	if status != 200 || len(all.Fleets) != 1 || all.TotalSize != 1 {
		t.Fatalf("%d %+v", status, all)
	}
	return all.Fleets[0]
}

func TestFleets(t *testing.T) {
	t.Parallel()
	url, _, routing := start(t)
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	routing.SetHealth(health.NewSnapshot("weather", []health.Backend{
		{Addr: addr1, State: health.Up, Dialect: call.Live, Since: since, By: "other", Reason: "it answers"},
		{Addr: addr2, State: health.Down, Since: since, By: "me", Reason: "timeout"},
	}))
	status, all := ask[capgatepb.ListFleetsResponse](t, "GET", url+"/v1/fleets", "")
	if status != 200 || all.TotalSize != 2 || len(all.Fleets) != 2 || all.NextPageToken != "" ||
		all.GetGateway().GetReplica() != "me" || all.GetGateway().GetRedis() != "ok" {
		t.Fatalf("%d %+v", status, all)
	}
	want := `{"name":"fleets/weather","capability":"weather","usable":1,"backends":[` +
		`{"name":"fleets/weather/backends/10.0.0.1:50051","addr":"10.0.0.1:50051","state":"up","why":"it answers","since":"2026-01-02T03:04:05Z","usable":true,"probed_by":"other","dialect":"live","zone":"a","weight":100,"max_concurrent":8,"in_flight":0,"latency_ms":0,"source":"config"},` +
		`{"name":"fleets/weather/backends/%5B2001:db8::1%5D:50051","addr":"[2001:db8::1]:50051",` +
		`"state":"down","why":"timeout","since":"2026-01-02T03:04:05Z",` +
		`"usable":false,"probed_by":"me","dialect":"auto","weight":7,"in_flight":0,"latency_ms":0}` +
		`],"update_time":"2026-01-02T03:04:05Z","backend_count":2,"failing_count":1}`
	if got, err := restjson.Marshal(all.GetFleets()[1]); err != nil || string(got) != want {
		t.Errorf("%s\nwant\n%s; err %+v", got, want, err)
	}
	if one := fleet(t, url, "news"); one.Backends[0].Session != "s1" || one.Backends[1].State != "off" {
		t.Errorf("%+v", one)
	}
	if status, p := ask[problem.Problem](t, "GET", url+"/v1/fleets?capability=none", ""); status != 404 ||
		p.Reason != "CAPABILITY_UNKNOWN" || p.Code != "NOT_FOUND" {
		t.Errorf("%d %+v", status, p)
	}
}

// TestPagesHaveEachFleetOnce: pages of any size have each fleet once, and in order.
func TestPagesHaveEachFleetOnce(t *testing.T) {
	t.Parallel()
	var more []router.FleetConfig
	for i := range 250 {
		more = append(more, router.FleetConfig{Capability: fmt.Sprintf("c%03d", i), Backends: router.Addrs(addr1)})
	}
	url, _, _ := start(t, more...)
	for _, size := range []string{"", "&page_size=0", "&page_size=7", "&page_size=252", "&page_size=5000"} {
		seen, token := 0, ""
		for last := ""; ; {
			status, page := ask[capgatepb.ListFleetsResponse](t, "GET", url+"/v1/fleets?page_token="+token+size, "")
			if status != 200 || page.TotalSize != 252 || len(page.Fleets) == 0 {
				t.Fatalf("%s: %d %d fleets of %d", size, status, len(page.Fleets), page.TotalSize)
			}
			for _, f := range page.Fleets {
				if f.Capability <= last {
					t.Fatalf("%s after %s", f.Capability, last)
				}
				last = f.Capability
				seen++
			}
			if token = page.NextPageToken; token == "" {
				break
			}
		}
		if seen != 252 {
			t.Errorf("%q: %d fleets", size, seen)
		}
	}
	for query, reason := range map[string]string{"page_size=-1": "INVALID_PAGE_SIZE",
		"page_size=x": "INVALID_PAGE_SIZE", "page_token=!": "INVALID_PAGE_TOKEN"} {
		if status, p := ask[problem.Problem](t, "GET", url+"/v1/fleets?"+query, ""); status != 400 ||
			p.Reason != reason {
			t.Errorf("%s: %d %+v", query, status, p)
		}
	}
}

func TestDrainAndBack(t *testing.T) {
	t.Parallel()
	url, _, _ := start(t)
	status, b := ask[capgatepb.BackendState](t, "POST", url+"/v1/backends/"+addr1+":drain", `{"capability": "weather"}`)
	if status != 200 || !b.Shared || len(b.Drains) != 1 || !b.Drains[0].Drained || b.Drains[0].InFlight != 3 ||
		b.Drains[0].Replicas != 2 || b.Drains[0].Unheard != 1 || b.Drains[0].Since == nil || !b.Drains[0].Changed {
		t.Fatalf("%d %+v", status, b)
	}
	f := fleet(t, url, "weather")
	if f.Usable != 1 || f.Backends[0].State != "draining" || f.Backends[0].Why != "drained by an operator" ||
		f.Backends[0].Usable || !f.Backends[1].Usable {
		t.Errorf("%+v", f)
	}
	status, b = ask[capgatepb.BackendState](t, "GET", url+"/v1/backends/"+addr1, "")
	if status != 200 || len(b.Drains) != 2 || !b.Drains[0].Drained || b.Drains[1].Drained || b.Drains[1].Unheard != 0 {
		t.Errorf("%d %+v", status, b)
	}
	status, b = ask[capgatepb.BackendState](t, "POST", url+"/v1/backends/"+addr1+":undrain", "")
	if status != 200 || len(b.Drains) != 2 || b.Drains[0].Drained || b.Drains[0].Since != nil || !b.Drains[0].Changed ||
		b.Drains[1].Changed { // the other fleet did not drain it
		t.Errorf("%d %+v", status, b)
	}
	if f = fleet(t, url, "weather"); f.Usable != 2 {
		t.Errorf("%+v", f)
	}
	// An IPv6 address is written as in the configuration, or escaped.
	for _, addr := range []string{addr2, "%5B2001:db8::1%5D:50051"} {
		if status, b := ask[capgatepb.BackendState](t, "POST", url+"/v1/backends/"+addr+":undrain",
			""); status != 200 || b.Addr != addr2 {
			t.Errorf("%d %+v", status, b)
		}
	}
}

// TestBackendsThatAreURLs: an address with slashes is one segment of the path, where they are escaped.
func TestBackendsThatAreURLs(t *testing.T) {
	t.Parallel()
	const addr, escaped = "https://mcp.example:8443/mcp", "https:%2F%2Fmcp.example:8443%2Fmcp"
	base, _, _ := start(t, router.FleetConfig{Capability: "tools", Backends: router.Addrs(addr, addr1)})
	for _, test := range []struct {
		method, custom string
		drained        bool
	}{{"POST", ":drain", true}, {"GET", "", true}, {"POST", ":undrain", false}, {"GET", "", false}} {
		status, b := ask[capgatepb.BackendState](t, test.method, base+"/v1/backends/"+escaped+test.custom, "")
		if status != 200 || b.Addr != addr || len(b.Drains) != 1 || b.Drains[0].Drained != test.drained {
			t.Errorf("%s %s: %d %+v", test.method, test.custom, status, b)
		}
	}
}

// TestDrainOfOneReplica: the counts of a backend are those of all replicas only if these know of all of its drains.
func TestDrainOfOneReplica(t *testing.T) {
	t.Parallel()
	for _, alone := range []string{"weather", "news", ""} {
		url, k, _ := start(t)
		k.alone = drains.Key{Capability: alone, Addr: addr1}
		status, b := ask[capgatepb.BackendState](t, "GET", url+"/v1/backends/"+addr1, "")
		if status != 200 || len(b.Drains) != 2 || b.Shared != (alone == "") {
			t.Errorf("%q: %d %+v", alone, status, b)
		}
	}
}

func TestDrainRefused(t *testing.T) {
	t.Parallel()
	url, k, _ := start(t, router.FleetConfig{Capability: "lone", Backends: router.Addrs("10.9.9.9:1")})
	for _, test := range []struct {
		target, body string
		status       int
		reason       string
	}{
		{"10.9.9.9:1:drain", "", 400, "LAST_BACKEND"},
		{"10.9.9.9:1:drain", `{"force": true}`, 200, ""},
		{"10.9.9.9:2:drain", "", 404, "BACKEND_UNKNOWN"},
		{addr1 + ":undrain", `{"capability": "lone"}`, 404, "BACKEND_UNKNOWN"},
		{addr1 + ":drain", `{"capabilty": "lone"}`, 400, "INVALID_BODY"},
		{addr1 + ":drain", `{"capability": "` + strings.Repeat("x", 4<<10) + `"}`, 400, "INVALID_BODY"},
		{addr1 + ":drain", `"` + strings.Repeat("x", 1<<20) + `"`, 400, "INVALID_BODY"},
		{addr1, "", 404, "NO_SUCH_PATH"},
		{addr1 + ":stop", "", 404, "NO_SUCH_PATH"},
	} {
		status, p := ask[problem.Problem](t, "POST", url+"/v1/backends/"+test.target, test.body)
		if status != test.status || p.Reason != test.reason {
			t.Errorf("%s %.50s: %d %+v", test.target, test.body, status, p)
		}
	}
	if status, p := ask[problem.Problem](t, "GET", url+"/v1/backends/10.9.9.9:2", ""); status != 404 ||
		p.Reason != "BACKEND_UNKNOWN" {
		t.Errorf("%d %+v", status, p)
	}
	k.err = drains.ErrFull
	if status, p := ask[problem.Problem](t, "POST", url+"/v1/backends/"+addr1+":drain",
		`{"force":true}`); status != 429 || p.Reason != "TOO_MANY_DRAINS" {
		t.Errorf("%d %+v", status, p)
	}
}

// A page of another site that an operator's browser shows can change nothing.
func TestOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	url, _, _ := start(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/backends/"+addr1+":drain", nil)
	check.Must(t, err)
	req.Header.Set("Origin", "http://elsewhere.example")
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
}
