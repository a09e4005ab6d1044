package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Proxies are the trusted load balancers and proxies in front of the public port, which report the client address.
// Reports of other clients are ignored. ProxyProtocol is a field of the top level.
type Proxies struct {
	From []netip.Prefix // from: their own addresses, IP addresses or prefixes; default none
	Hops int            // hops: maximum number of them that a call has passed, 1 to 16; default 16
	// header: their header with the client address, x-forwarded-for or forwarded; default x-forwarded-for
	Header string
	// proxy_protocol: version of the PROXY protocol on connections from these addresses, off, v1 or v2; default off
	ProxyProtocol string
}

func (p *parser) proxies(at strictyaml.Place) {
	c := &p.config.Proxies
	p.Mapping(at, map[string]strictyaml.Field{
		"from":   p.List(p.prefix(&c.From)),
		"hops":   p.Integer(&c.Hops, 1, 16),
		"header": p.Text(&c.Header, oneOf("x-forwarded-for", "forwarded")),
	})
	if len(c.From) == 0 {
		p.Missing(at, "from", "required: the proxies' addresses, as in [10.0.0.0/8]")
	}
}

// prefix parses an IP address or a prefix into a list.
func (p *parser) prefix(to *[]netip.Prefix) strictyaml.Field {
	var text string
	return p.Text(&text, func(v string) string {
		prefix, err := netip.ParsePrefix(v)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(v); err == nil && addr.Zone() == "" && !addr.Is4In6() {
				prefix, err = addr.Prefix(addr.BitLen())
			}
		}
		if err != nil || !prefix.IsValid() {
			return fmt.Sprintf("%q is neither an IP address nor a prefix; write 127.0.0.1 or 127.0.0.0/8", v)
		}
		if prefix != prefix.Masked() {
			return fmt.Sprintf("%s has bits set after its length; write %s", v, prefix.Masked())
		}
		*to = append(*to, prefix)
		return ""
	})
}

// oneOf accepts only these words.
func oneOf(words ...string) func(string) string {
	return func(v string) string {
		return unless(slices.Contains(words, v), "%q is not possible; it must be one of %s", v, strings.Join(words, ", "))
	}
}
