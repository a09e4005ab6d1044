package clientaddr_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/capgate/capgate/internal/clientaddr"
)

const signature = "\r\n\r\n\x00\r\nQUIT\n"

// v2 returns a header of version 2.
func v2(verCmd, family byte, body string) string {
	return signature + string([]byte{verCmd, family}) +
		string(binary.BigEndian.AppendUint16(nil, uint16(len(body)))) + body
}

const (
	inet  = "\xc0\x00\x02\x01" + "\x0a\x00\x00\x01" + "\xd4\x31" + "\x01\xbb" // 192.0.2.1:54321 → 10.0.0.1:443
	inet6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\x00\x50\x01\xbb"
	tlv = "\x04\x00\x03abc\x20\x00\x00" // NOOP, SSL
)

func TestReadProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		p           clientaddr.Protocol
		in          string
		want, wrong string
	}{
		"IPv4":          {clientaddr.V2, v2(0x21, 0x11, inet), "192.0.2.1:54321", ""},
		"IPv4 and TLVs": {clientaddr.V2, v2(0x21, 0x11, inet+tlv), "192.0.2.1:54321", ""},
		"datagrams":     {clientaddr.V2, v2(0x21, 0x12, inet), "192.0.2.1:54321", ""},
		"IPv6":          {clientaddr.V2, v2(0x21, 0x21, inet6), "[2001:db8::1]:80", ""},
		"mapped": {clientaddr.V2,
			v2(0x21, 0x21, strings.Repeat("\x00", 10)+"\xff\xff\xc0\x00\x02\x01"+inet6[16:]), "192.0.2.1:80", ""},
		"unix":              {clientaddr.V2, v2(0x21, 0x31, strings.Repeat("p", 216)), "", ""},
		"unspecified":       {clientaddr.V2, v2(0x21, 0x00, tlv), "", ""},
		"local":             {clientaddr.V2, v2(0x20, 0x00, ""), "", ""},
		"local, with words": {clientaddr.V2, v2(0x20, 0xff, "whatever"), "", ""},
		"nothing":           {clientaddr.V2, "", "", "truncated"},
		"no header":         {clientaddr.V2, "GET / HTTP/1.1\r\n\r\n", "", "it is missing"},
		"half a signature":  {clientaddr.V2, signature[:7], "", "truncated"},
		"version 1":         {clientaddr.V2, "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n", "", "it is missing"},
		"version 3":         {clientaddr.V2, v2(0x31, 0x11, inet), "", "version 3 is not 2"},
		"unknown command":   {clientaddr.V2, v2(0x22, 0x11, inet), "", "malformed"},
		"unknown family":    {clientaddr.V2, v2(0x21, 0x41, inet), "", "malformed"},
		"short IPv4":        {clientaddr.V2, v2(0x21, 0x11, inet[:11]), "", "truncated"},
		"short IPv6":        {clientaddr.V2, v2(0x21, 0x21, inet6[:35]), "", "truncated"},
		"short unix":        {clientaddr.V2, v2(0x21, 0x31, "p"), "", "truncated"},
		"short body":        {clientaddr.V2, v2(0x21, 0x11, inet)[:20], "", "truncated"},
		"huge":              {clientaddr.V2, v2(0x21, 0x11, inet+strings.Repeat("\x04\x00\x00", 2000)), "", "too long"},
		"v1, IPv4":          {clientaddr.V1, "PROXY TCP4 192.0.2.1 10.0.0.1 54321 443\r\n", "192.0.2.1:54321", ""},
		"v1, IPv6":          {clientaddr.V1, "PROXY TCP6 2001:db8::1 2001:db8::2 80 443\r\n", "[2001:db8::1]:80", ""},
		"v1, unknown":       {clientaddr.V1, "PROXY UNKNOWN\r\n", "", ""},
		"v1, unknown words": {clientaddr.V1, "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "", ""},
		"v1, wrong family":  {clientaddr.V1, "PROXY TCP4 2001:db8::1 2001:db8::2 80 443\r\n", "", "malformed"},
		"v1, a zone":        {clientaddr.V1, "PROXY TCP6 fe80::1%a fe80::2 80 443\r\n", "", "malformed"},
		"v1, a port":        {clientaddr.V1, "PROXY TCP4 192.0.2.1 10.0.0.1 65536 443\r\n", "", "malformed"},
		"v1, too few":       {clientaddr.V1, "PROXY TCP4 192.0.2.1\r\n", "", "malformed"},
		"v1, too long":      {clientaddr.V1, "PROXY " + strings.Repeat("x", 200), "", "too long"},
		"v1, none":          {clientaddr.V1, "GET / HTTP/1.1\r\n\r\n", "", "it is missing"},
		"v1, cut off":       {clientaddr.V1, "PROXY TCP4", "", "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rest := strings.NewReader(test.in + "rest")
			if test.wrong == "truncated" && !strings.HasPrefix(name, "short ") || name == "short body" {
				rest = strings.NewReader(test.in)
			}
			got, err := clientaddr.ReadProxy(iotest.OneByteReader(rest), test.p)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Fatalf("%v, %v; want %s", got, err, test.wrong)
				}
				return
			}
			var want netip.AddrPort
			if test.want != "" {
				want = netip.MustParseAddrPort(test.want)
			}
			if left, _ := io.ReadAll(rest); err != nil || got != want || string(left) != "rest" {
				t.Errorf("%v, %v, and %q is left; want %v", got, err, left, want)
			}
		})
	}
}

// FuzzReadProxy: nothing is read but the header, and what is taken for one says a plain address
// or none.
func FuzzReadProxy(f *testing.F) {
	f.Add(true, []byte(v2(0x21, 0x11, inet+tlv)))
	f.Add(true, []byte(v2(0x21, 0x21, inet6)))
	f.Add(true, []byte(v2(0x20, 0, "")))
	f.Add(false, []byte("PROXY TCP4 192.0.2.1 10.0.0.1 54321 443\r\nrest"))
	f.Fuzz(func(t *testing.T, second bool, in []byte) {
		p := clientaddr.V1
		if second {
			p = clientaddr.V2
		}
		r := bytes.NewReader(in)
		a, err := clientaddr.ReadProxy(r, p)
		read := len(in) - r.Len()
		if read > 16+4<<10 || err == nil && read < 15 {
			t.Errorf("%d bytes were read", read)
		}
		if err == nil && second && read != 16+int(binary.BigEndian.Uint16(in[14:])) ||
			err == nil && !second && !bytes.HasSuffix(in[:read], []byte("\r\n")) {
			t.Errorf("%d bytes were read of %q", read, in)
		}
		if a.IsValid() && (err != nil || a.Addr().Zone() != "" || a.Addr().Is4In6()) {
			t.Errorf("%v, %v", a, err)
		}
	})
}
