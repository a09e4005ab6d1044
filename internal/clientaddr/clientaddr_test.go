package clientaddr_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/testkit/check"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}

func TestClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg        clientaddr.Config
		peer, list string
		want       string
	}{
		"nothing said":            {clientaddr.Config{}, "10.0.0.1", "", "10.0.0.1"},
		"one hop":                 {clientaddr.Config{}, "10.0.0.1", "192.0.2.1", "192.0.2.1"},
		"peer is not trusted":     {clientaddr.Config{}, "192.0.2.9", "192.0.2.1", "192.0.2.9"},
		"forged before it":        {clientaddr.Config{}, "10.0.0.1", "6.6.6.6, 192.0.2.1", "192.0.2.1"},
		"forged trusted":          {clientaddr.Config{}, "10.0.0.1", "6.6.6.6, 10.0.0.7, 192.0.2.1", "192.0.2.1"},
		"through two proxies":     {clientaddr.Config{}, "10.0.0.1", "6.6.6.6, 192.0.2.1,10.0.0.2", "192.0.2.1"},
		"from a proxy itself":     {clientaddr.Config{}, "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		"more hops than believed": {clientaddr.Config{Hops: 1}, "10.0.0.1", "192.0.2.1, 10.0.0.2", "10.0.0.2"},
		"two hops":                {clientaddr.Config{Hops: 2}, "10.0.0.1", "192.0.2.1, 10.0.0.2", "192.0.2.1"},
		"empty items":             {clientaddr.Config{}, "10.0.0.1", "192.0.2.1, , ,", "192.0.2.1"},
		"commas only":             {clientaddr.Config{}, "10.0.0.1", ",,, ,", "10.0.0.1"},
		"unknown":                 {clientaddr.Config{}, "10.0.0.1", "192.0.2.1, unknown", "10.0.0.1"},
		"unknown to the second":   {clientaddr.Config{}, "10.0.0.1", "_x, 10.0.0.2", "10.0.0.2"},
		"with a port":             {clientaddr.Config{}, "10.0.0.1", "192.0.2.1:4711", "192.0.2.1"},
		"IPv6":                    {clientaddr.Config{}, "2001:db8:1::1", "2001:db8::1", "2001:db8::1"},
		"IPv6 in brackets":        {clientaddr.Config{}, "10.0.0.1", "[2001:db8::1]:80", "2001:db8::1"},
		"IPv6 without end":        {clientaddr.Config{}, "10.0.0.1", "[2001:db8::1", "10.0.0.1"},
		"mapped":                  {clientaddr.Config{}, "10.0.0.1", "192.0.2.1, ::ffff:10.0.0.2", "192.0.2.1"},
		"a zone":                  {clientaddr.Config{}, "10.0.0.1", "fe80::1%" + strings.Repeat("z", 20), "10.0.0.1"},
		"long":                    {clientaddr.Config{}, "10.0.0.1", strings.Repeat("1", 1000), "10.0.0.1"},
		"Forwarded": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=6.6.6.6, for=192.0.2.1;proto=https;by=10.0.0.1`, "192.0.2.1"},
		"Forwarded, IPv6": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`proto=https; For="[2001:db8::1]:4711"`, "2001:db8::1"},
		"Forwarded, two hops": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=192.0.2.1,for=10.0.0.2`, "192.0.2.1"},
		"Forwarded, a quote": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=6.6.6.6;x=", for=192.0.2.1`, "192.0.2.1"},
		"Forwarded, a comma in quotes": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=192.0.2.1;host="x,for=6.6.6.6"`, "192.0.2.1"},
		"Forwarded, an escaped quote": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=192.0.2.1;host="x\",for=6.6.6.6;y=\""`, "192.0.2.1"},
		"Forwarded, an escaped backslash": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=6.6.6.6;x="\\", for=192.0.2.1;host="x,for=6.6.6.6\\"`, "192.0.2.1"},
		"Forwarded, a semicolon in quotes": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`host="x;for=6.6.6.6";for=192.0.2.1`, "192.0.2.1"},
		"Forwarded, a quote and a comma in quotes": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=6.6.6.6;x=", for=192.0.2.1;host="x,for=6.6.6.6"`, "192.0.2.1"},
		"Forwarded, an open quote at the end": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=6.6.6.6, for=192.0.2.1;host="x`, "10.0.0.1"},
		"Forwarded, hidden": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=192.0.2.1, for=_gazonk`, "10.0.0.1"},
		"Forwarded, twice": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1",
			`for=6.6.6.6;for=192.0.2.1`, "10.0.0.1"},
		"Forwarded, by alone": {clientaddr.Config{Header: clientaddr.Forwarded}, "10.0.0.1", `by=192.0.2.1`,
			"10.0.0.1"},
	} {
		test.cfg.Trusted = proxies
		if got := clientaddr.New(test.cfg).Client(netip.MustParseAddr(test.peer),
			test.list); got.String() != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// TestAddrOf: an address is the same regardless of the socket's notation and of the link.
func TestAddrOf(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]net.Addr{
		"10.0.0.1":    &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1).To4(), Port: 1},
		"10.0.0.2":    &net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.2").To16(), Port: 1}, // of a socket for both
		"fe80::1":     &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"},
		"invalid IP":  &net.UnixAddr{Name: "/run/capgate.sock"},
		"2001:db8::1": &net.TCPAddr{IP: net.ParseIP("2001:db8::1")},
	} {
		got := clientaddr.AddrOf(a)
		if got.String() != want {
			t.Errorf("%v: %v", a, got)
		}
		if r := clientaddr.New(clientaddr.Config{Trusted: proxies}); r.Trusts(got) != strings.HasPrefix(want, "10.") {
			t.Errorf("%v is trusted: %t", a, r.Trusts(got))
		}
	}
}

// FuzzClient: the client is the peer, or an address in the list.
func FuzzClient(f *testing.F) {
	for _, list := range []string{"6.6.6.6, 192.0.2.1", `for="[2001:db8::1]";by=x, for=10.0.0.2`, `",,;`} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		for _, header := range []string{clientaddr.XForwardedFor, clientaddr.Forwarded} {
			r := clientaddr.New(clientaddr.Config{Trusted: proxies, Header: header})
			peer := netip.MustParseAddr("10.0.0.1")
			got := r.Client(peer, list)
			if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
				t.Errorf("%v of %q", got, list)
			}
			// The last address, which the proxy added, is trusted, and none before it.
			if got = r.Client(peer, list+", for=192.0.2.7"); header == clientaddr.Forwarded &&
				got.String() != "192.0.2.7" {
				t.Errorf("%v of %q", got, list)
			}
			host := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(list)
			if got = r.Client(peer, list+`, for=192.0.2.7;host="`+host+`"`); header == clientaddr.Forwarded &&
				got.String() != "192.0.2.7" {
				t.Errorf("%v of %q as the host", got, list)
			}
			if got = r.Client(peer, list+", 192.0.2.7"); header == clientaddr.XForwardedFor &&
				got.String() != "192.0.2.7" {
				t.Errorf("%v of %q", got, list)
			}
		}
	})
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer ln.Close()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, test := range map[string]struct {
		cfg     clientaddr.Config
		sent    string
		want    string // "": the socket's
		refused uint64
	}{
		"off": {clientaddr.Config{Trusted: loopback}, v2(0x21, 0x11, inet), "", 0},
		"trusted": {clientaddr.Config{Trusted: loopback, Protocol: clientaddr.V2}, v2(0x21, 0x11, inet),
			"192.0.2.1:54321", 0},
		"local":       {clientaddr.Config{Trusted: loopback, Protocol: clientaddr.V2}, v2(0x20, 0, ""), "", 0},
		"not trusted": {clientaddr.Config{Trusted: proxies, Protocol: clientaddr.V2}, v2(0x21, 0x11, inet), "", 0},
		"missing":     {clientaddr.Config{Trusted: loopback, Protocol: clientaddr.V2}, "PRI * HTTP/2.0\r\n\r\n", "", 1},
	} {
		client, err := net.Dial("tcp", ln.Addr().String())
		check.Must(t, err)
		server, err := ln.Accept()
		check.Must(t, err)
		_, _ = client.Write([]byte(test.sent))
		r := clientaddr.New(test.cfg)
		got, err := r.ConnAddr(server)
		want := test.want
		if want == "" {
			want = client.LocalAddr().String()
		}
		if r.Rejected() != test.refused || (err != nil) != (test.refused > 0) || err == nil && got.String() != want {
			t.Errorf("%s: %v, %v, %d refused; want %s", name, got, err, r.Rejected(), want)
		}
		client.Close()
		server.Close()
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"x-tenant-id": true, "x-user-id": true, "x-agent-id": true, "x-real-ip": true, "forwarded": true,
		"x-forwarded-for":         true,
		"x-forwarded-client-cert": true, "grpc-metadata-authorization": true, "x-capgate-caller": true,
		"x-approval-id": true, "cookie": true, "proxy-authorization": true, "proxy-connection": true,
		"x-request-id": false, "authorization": false, "x-forwarded": false, "grpc-timeout": false,
		"forwarded-for": false, "": false,
	} {
		if clientaddr.Reserved(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
