package files

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

// Sum is the SHA-256 of a file.
type Sum [sha256.Size]byte

// Headers with a digest. Each may have the digest of a request's body.
const (
	digestHeader = "Digest"      // RFC 3230; for older clients
	reprDigest   = "Repr-Digest" // RFC 9530 §3
	contDigest   = "Content-Digest"
)

// Digest returns s in the form of the Digest header.
func (s Sum) Digest() string { return "sha-256=" + s.base64() }

// ReprDigest returns s in the form of the Repr-Digest header.
func (s Sum) ReprDigest() string { return "sha-256=:" + s.base64() + ":" }

func (s Sum) base64() string { return base64.StdEncoding.EncodeToString(s[:]) }

// tell sets s in a header or trailer.
func (s Sum) tell(header http.Header) {
	header.Set(digestHeader, s.Digest())
	header.Set(reprDigest, s.ReprDigest())
}

// agrees reports whether s matches all SHA-256 digests in a request's headers.
func (s Sum) agrees(header http.Header) bool {
	for _, name := range [...]string{reprDigest, contDigest, digestHeader} {
		for _, line := range header.Values(name) {
			for one := range strings.SplitSeq(line, ",") {
				algorithm, value, _ := strings.Cut(strings.TrimSpace(one), "=")
				if !strings.EqualFold(algorithm, "sha-256") {
					continue
				}
				said, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
				if err != nil || subtle.ConstantTimeCompare(said, s[:]) != 1 {
					return false
				}
			}
		}
	}
	return true
}
