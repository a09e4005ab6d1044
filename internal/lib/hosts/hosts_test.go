package hosts_test

import (
	"net"
	"testing"

	"github.com/capgate/capgate/internal/lib/hosts"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	own := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 8081}
	names := hosts.New([]string{"Gate.example.com", "*.internal", "192.0.2.7", "2001:db8::7"})
	for authority, want := range map[string]bool{
		"": true, "localhost": true, "LocalHost:8081": true, "a.localhost": true, "localhost.": true,
		"127.0.0.1:8081": true, "127.9.9.9": true, "[::1]:8081": true, "[::ffff:127.0.0.1]": true,
		"10.1.2.3": true, "10.1.2.3:8081": true, "[::ffff:10.1.2.3]:8081": true, "192.0.2.7:1": true,
		"[2001:db8:0::7]":  true,
		"gate.example.com": true, "GATE.example.com.:8081": true, "a.b.internal": true,

		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"evil-localhost": false,
		"internal":       false, "xinternal": false, ".internal": false, "gate.example.com.evil": false,
		"x.gate.example.com": false,
		"10.1.2.4":           false, "[::2]": false, "evil@localhost": false, "localhost@evil": false,
		"localhost:80:80": false,
		"localhost/evil":  false, "[::1]evil": false, "[::1": false, "2130706433": false, "0x7f000001": false,
		" localhost": false,
	} {
		if got := names.Allows(authority, own); got != want {
			t.Errorf("%q: %v", authority, got)
		}
	}
	if hosts.New(nil).Allows("192.0.2.9", nil) {
		t.Error("an address is allowed without WithAddresses")
	}
	if !hosts.New(nil).WithAddresses().Allows("192.0.2.9:80", nil) {
		t.Error("an address is not allowed with WithAddresses")
	}
	if !hosts.New([]string{"*"}).Allows("evil.example", nil) {
		t.Error("the pattern * does not allow any name")
	}
}

// TestLists: only given names are listed, whatever else a port answers.
func TestLists(t *testing.T) {
	t.Parallel()
	names := hosts.New([]string{"*", "Gate.example.com", "*.internal", "192.0.2.7"}).WithAddresses()
	for host, want := range map[string]bool{
		"gate.example.com": true, "GATE.example.com.": true, "a.b.internal": true, "192.0.2.7": true,
		"internal": false, "x.gate.example.com": false, "192.0.2.8": false, "localhost": false, "127.0.0.1": false,
		"other.example": false, "": false,
	} {
		if names.Lists(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"*": true, "a": true, "a.b-c_d.": true, "*.example.com": true, "192.0.2.1": true, "::1": true,
		"": false, "*.": false, "a..b": false, "a:80": false, "http://a": false, "*.192.0.2.1": false, "a.*": false,
		"*a": false,
	} {
		if hosts.Valid(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("localhost:80")
	f.Fuzz(func(t *testing.T, authority string) {
		if hosts.New(nil).Allows(authority+".evil.example", nil) {
			t.Errorf("%q answers", authority)
		}
	})
}
