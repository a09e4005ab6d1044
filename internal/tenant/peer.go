package tenant

import (
	"crypto/x509"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of the names in a certificate.
const (
	maxSPIFFE = 2048 // bytes of a SPIFFE ID (SPIFFE-ID §2.3)
	maxDNS    = 32   // names
)

// Peer is the verified client certificate of a connection. It is made once for each connection.
type Peer struct {
	SPIFFE  string    // SPIFFE ID; "" where there is none
	DNS     []string  // names in lower case, without wildcards
	Expires time.Time // end of the certificate's validity

	found atomic.Pointer[match] // result of the last match
}

// PeerOf returns the Peer of a verified certificate; nil if it has no name. A certificate with a SPIFFE ID and
// another URI has no name (X509-SVID §2), and neither has one with an invalid SPIFFE ID.
func PeerOf(leaf *x509.Certificate) *Peer {
	if leaf.IsCA || len(leaf.DNSNames) > maxDNS {
		return nil
	}
	p := &Peer{Expires: leaf.NotAfter}
	for _, uri := range leaf.URIs {
		if !strings.EqualFold(uri.Scheme, "spiffe") {
			continue
		}
		if p.SPIFFE = uri.String(); len(leaf.URIs) > 1 || !IsSPIFFE(p.SPIFFE) {
			return nil
		}
	}
	for _, name := range leaf.DNSNames {
		if name = strings.ToLower(strings.TrimSuffix(name, ".")); name != "" && !strings.Contains(name, "*") {
			p.DNS = append(p.DNS, name)
		}
	}
	if p.SPIFFE == "" && len(p.DNS) == 0 {
		return nil
	}
	return p
}

// spiffeScheme begins every SPIFFE ID.
const spiffeScheme = "spiffe://"

// IsSPIFFE reports whether id is the SPIFFE ID of a workload, which has a path (SPIFFE-ID §2).
func IsSPIFFE(id string) bool { return isSPIFFE(id, false) }

func isSPIFFE(id string, pattern bool) bool {
	rest, ok := strings.CutPrefix(id, spiffeScheme)
	domain, path, found := strings.Cut(rest, "/")
	if !ok || !found || len(id) > maxSPIFFE || domain == "" || len(domain) > 255 ||
		strings.Trim(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if pattern && segment == "*" {
			continue
		}
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, notInPath) {
			return false
		}
	}
	return true
}

func notInPath(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
}
