package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// Hash is the stored hash of a secret. Only Matches compares it.
type Hash struct {
	sum      [sha256.Size]byte
	peppered bool
}

const (
	plainPrefix    = "sha256:"
	pepperedPrefix = "hmac-sha256:"
)

// MinPepper is the minimum length of a pepper, in bytes.
const MinPepper = 16

// HashOf hashes a secret, with HMAC under a pepper unless that is empty.
func HashOf(secret string, pepper []byte) Hash {
	if len(pepper) == 0 {
		return Hash{sum: sha256.Sum256([]byte(secret))}
	}
	mac := hmac.New(sha256.New, pepper)
	mac.Write([]byte(secret))
	return Hash{sum: [sha256.Size]byte(mac.Sum(nil)), peppered: true}
}

// ParseHash decodes the result of String. The error quotes nothing, because a wrong text may be the secret
// itself.
func ParseHash(text string) (h Hash, ok bool) {
	digits, ok := strings.CutPrefix(text, plainPrefix)
	if !ok {
		if digits, ok = strings.CutPrefix(text, pepperedPrefix); !ok {
			return Hash{}, false
		}
		h.peppered = true
	}
	sum, err := hex.DecodeString(digits)
	if err != nil || len(sum) != sha256.Size {
		return Hash{}, false
	}
	h.sum = [sha256.Size]byte(sum)
	return h, true
}

func (h Hash) String() string {
	if h.peppered {
		return pepperedPrefix + hex.EncodeToString(h.sum[:])
	}
	return plainPrefix + hex.EncodeToString(h.sum[:])
}

// Peppered reports whether a comparison needs a pepper.
func (h Hash) Peppered() bool { return h.peppered }

// Matches reports whether a secret has this hash. It takes the same time for every secret.
func (h Hash) Matches(secret string, pepper []byte) bool {
	if h.peppered != (len(pepper) > 0) {
		if h.peppered {
			return false // the comparison is impossible
		}
		pepper = nil // the hash is older than the pepper
	}
	other := HashOf(secret, pepper)
	return subtle.ConstantTimeCompare(h.sum[:], other.sum[:]) == 1
}
