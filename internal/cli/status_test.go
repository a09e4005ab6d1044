package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// rows returns the lines of the table of capgate status, in words.
func rows(t *testing.T, admin string, args ...string) (all [][]string, text string) {
	t.Helper()
	exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, append([]string{"status"}, args...)...)
	if exit != 0 || stderr != "" {
		t.Fatalf("capgate status: exit status %d: %s%s", exit, stdout, stderr)
	}
	for line := range strings.Lines(stdout) {
		all = append(all, strings.Fields(line))
	}
	return all, stdout
}

// waitStatus waits until a backend is in a state, in every fleet that has it.
func waitStatus(t *testing.T, admin, backend, state string) {
	t.Helper()
	check.Until(t, backend+" to be "+state, func() (bool, string) {
		exit, text, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, "status")
		if exit != 0 {
			return false, stderr // a busy gateway may not respond in time
		}
		found, other := false, false
		for line := range strings.Lines(text) {
			if row := strings.Fields(line); len(row) > 2 && row[1] == backend {
				found, other = true, other || row[2] != state
			}
		}
		return found && !other, fmt.Sprintf("%s is not %s:\n%s", backend, state, text)
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	alive, dead := gatewaytest.NewCapability("b").Serve(t, call.Doc), check.ClosedPort(t)
	text := strings.TrimSuffix(configOf("replicas: {id: me}", alive.Addr, dead), "]\n") +
		", {capability: other, policy: allow, " + patientProbes + ", backends: ['" + dead + "']}]\n"
	text = strings.ReplaceAll(text, patientProbes, "health: {interval: 20s, timeout: 20s, fall: 1}")
	_, _, port := serve(t, nil, "--config", writeConfig(t, text))
	waitStatus(t, port, alive.Addr, "up")
	waitStatus(t, port, dead, "down")
	all, text := rows(t, ":"+port[strings.LastIndexByte(port, ':')+1:]) // as a gateway's listen address is given
	if !strings.HasPrefix(text, "replica me, redis embedded, 2 fleets\n\nCAPABILITY  BACKEND ") ||
		!strings.HasSuffix(text, "\n\nother: no usable backend\n") {
		t.Errorf("\n%s", text)
	}
	if row := all[3]; row[0] != "caps" || row[1] != alive.Addr || row[2] != "up" || row[4] != "0" || row[5] != "-" {
		t.Errorf("got %q", row)
	}
	if _, text := rows(t, port, "other"); strings.Contains(text, "caps") || !strings.Contains(text, "1 fleet\n") {
		t.Errorf("\n%s", text)
	}

	exit, stdout, _ := runProgram(t, nil, "status", "-o", "json", "--admin", "http://"+port+"/")
	fleets := new(capgatepb.ListFleetsResponse)
	if err := protojson.Unmarshal([]byte(stdout), fleets); err != nil || exit != 0 || len(fleets.Fleets) != 2 ||
		fleets.GetGateway().GetReplica() != "me" {
		t.Errorf("exit status %d: %s: %v; fleets %+v", exit, stdout, err, fleets)
	}
	for _, test := range []struct {
		args, want string
		exit       int
	}{
		{"none", "no fleet serves this capability", exitRefused},
		{"--admin=" + dead, "nothing listens at " + dead, exitUnreachable},
	} {
		if exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + port}, "status",
			test.args); exit != test.exit || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit status %d: %s%s", test.args, exit, stdout, stderr)
		}
	}
	if exit, _, stderr := runProgram(t, nil, "status", "--every", "0s"); exit != 2 ||
		!strings.Contains(stderr, "--every") {
		t.Errorf("exit status %d: %s", exit, stderr)
	}
}

// A watch repeats its output, also after an outage of the gateway.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	_, _, admin := serve(t, nil, "--config", configFile(t, backend.Addr, "replicas: {id: one}"))
	_, _, later := serve(t, nil, "--config", configFile(t, backend.Addr, "replicas: {id: later}"))
	var behind atomic.Pointer[string] // the balancer
	behind.Store(&admin)
	balancer := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", *behind.Load() },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(balancer.Close)
	table := start(t, nil, "status", "--watch", "--every", "10ms", "--admin", balancer.URL)
	lines := start(t, nil, "status", "--watch", "--every", "10ms", "-o", "json", "--admin", balancer.URL)
	table.stdout.wait(t, table, "\n\nreplica one")
	lines.stdout.wait(t, lines, "}\n{\"gateway\"")
	nobody := gatewaytest.Unreachable(t)
	behind.Store(&nobody)
	for _, w := range []*program{table, lines} {
		w.stderr.wait(t, w, "502 Bad Gateway")
	}
	behind.Store(&later)
	table.stdout.wait(t, table, "\nreplica later, ")
	lines.stdout.wait(t, lines, `"replica":"later"`)
	for _, w := range []*program{table, lines} {
		w.signal(t, syscall.SIGINT)
		if exit := w.wait(t); exit != 0 {
			t.Errorf("exit status %d", exit)
		}
	}
}

func TestStatusTable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }
	var table strings.Builder
	printFleets(&table, &capgatepb.ListFleetsResponse{
		Gateway: &capgatepb.RespondingReplica{Replica: "me", Redis: "ok"}, TotalSize: 3,
		Fleets: []*capgatepb.Fleet{
			{Capability: "weather", Usable: 2, Panic: true, Backends: []*capgatepb.Backend{
				{Addr: "10.0.0.1:1", State: "up", Why: "90 cities", Since: ago(90 * time.Second), ProbedBy: "me",
					InFlight: 12, LatencyMs: 0.25},
				{Addr: "10.0.0.2:1", State: "down", Since: ago(-time.Second), ProbedBy: "other",
					Why: "\x1b[2Jmoves\nthe screen", LatencyMs: 3.14159},
				{Addr: "10.0.0.3:1", State: "draining", Since: ago(50 * time.Hour),
					Why: strings.Repeat("x", maxWhy+1), LatencyMs: 1234.5},
				{Addr: "10.0.0.4:1", State: "unknown"},
			}},
			{Capability: "empty"},
			{Capability: "old", Usable: 0, Backends: []*capgatepb.Backend{{Addr: "10.0.0.5:1", State: "down",
				Since: ago(3*time.Hour + time.Minute)}}},
		},
	}, now, nil)
	want := `replica me, redis ok, 3 fleets

CAPABILITY  BACKEND     STATE     AGE  IN FLIGHT  LATENCY  PROBED BY  REASON
weather     10.0.0.1:1  up        90s  12         250µs    this one   -
weather     10.0.0.2:1  down      0s   0          3.1ms    other      �[2Jmoves the screen
weather     10.0.0.3:1  draining  2d   0          1.235s   -          ` + strings.Repeat("x", maxWhy) + `…
weather     10.0.0.4:1  unknown   -    0          -        -          -
old         10.0.0.5:1  down      3h   0          -        -          -

weather: fewer than half are healthy: calls also go to unhealthy backends
empty: no backends
old: no usable backend
`
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
