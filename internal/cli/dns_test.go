package cli

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/dnstest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// portOf returns the port where a backend of the test listens.
func portOf(t *testing.T, b *gatewaytest.Backend) uint16 {
	t.Helper()
	_, port, err := net.SplitHostPort(b.Addr)
	check.Must(t, err)
	n, err := strconv.ParseUint(port, 10, 16)
	check.Must(t, err)
	return uint16(n)
}

// The backends are those in DNS, under load: they come and go, and stay while DNS fails.
func TestBackendsFromDNS(t *testing.T) {
	t.Parallel()
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	one, two := first.Serve(t, call.Doc), second.Serve(t, call.Live)
	dns := dnstest.Start(t)
	dns.Set("host.test.", "127.0.0.1")
	records := func(all ...*gatewaytest.Backend) {
		var set []dnstest.Record
		for _, b := range all {
			set = append(set, dnstest.SRV(0, 0, portOf(t, b), "host.test."))
		}
		dns.SetSRV("_grpc._tcp.caps.test.", set...)
	}
	records(one)
	more := fmt.Sprintf("dns: {server: '%s', resolve: 20ms}", dns.Addr)
	p, public, admin := serve(t, nil, "--config", registryConfig(t, more, "dns:///_grpc._tcp.caps.test."))
	waitBackends(t, admin, 1)
	callOnce(t, dial(t, public))
	calls := startLoad(t, 3, dial(t, public))
	calls.during(t, "one more", func() {
		records(one, two)
		waitBackends(t, admin, 2)
		second.WaitSeen(t, 1)
	})
	calls.during(t, "dns fails", func() {
		dns.Fail(true)
		waitMetric(t, "http://"+admin+"/metrics", "capgate_registry_dns_failures_total",
			func(n float64) bool { return n > 2 })
		waitBackends(t, admin, 2)
		dns.Fail(false)
	})
	calls.during(t, "one less", func() {
		records(two)
		waitBackends(t, admin, 1)
	})
	before := len(first.Seen())
	calls.more(t, 100)
	calls.end()
	if n := len(first.Seen()) - before; n > 3 {
		t.Errorf("a backend that left DNS got %d calls", n)
	}
	one.WaitIdle(t)
	p.stop(t)
}

// A host's addresses are backends, and another entry in the file replaces the previous one while calls run.
func TestHostFromDNS(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b")
	one, two := capability.Serve(t, call.Doc), capability.Serve(t, call.Doc)
	dns := dnstest.Start(t)
	dns.Set("caps.test.", "127.0.0.1")
	more := fmt.Sprintf("dns: {server: '%s', resolve: 20ms}", dns.Addr)
	config := func(b *gatewaytest.Backend) map[string]string {
		return map[string]string{"capgate.yaml": configOf(more, fmt.Sprintf("dns:///caps.test.:%d", portOf(t, b)))}
	}
	var files configMap
	files.put(t, config(one))
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	waitPage(t, "http://"+admin+"/v1/fleets", `"source":"dns"`)
	calls := startLoad(t, 2, dial(t, public))
	calls.during(t, "another name", func() {
		files.put(t, config(two))
		waitPage(t, "http://"+admin+"/v1/fleets", fmt.Sprintf(`"addr":"%s"`, two.Addr))
	})
	calls.end()
	one.WaitIdle(t)
	p.stop(t)
}
