package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// Hash is what is kept of a secret. It is compared by Matches alone.
type Hash struct {
	sum      [sha256.Size]byte
	peppered bool
}

const (
	plainPrefix    = "sha256:"
	pepperedPrefix = "hmac-sha256:"
)

// MinPepper is the shortest pepper, in bytes.
const MinPepper = 16

// HashOf hashes a secret, under a pepper unless that is empty.
func HashOf(secret string, pepper []byte) Hash {
	if len(pepper) == 0 {
		return Hash{sum: sha256.Sum256([]byte(secret))}
	}
	mac := hmac.New(sha256.New, pepper)
	mac.Write([]byte(secret))
	return Hash{sum: [sha256.Size]byte(mac.Sum(nil)), peppered: true}
}

// ParseHash reads what String wrote. There is nothing in a wrong text to quote: somebody may have
// written the secret itself.
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

// Peppered says whether a pepper is needed to compare it with anything.
func (h Hash) Peppered() bool { return h.peppered }

// Matches says whether a secret has this hash. It takes the same time whatever the secret is.
func (h Hash) Matches(secret string, pepper []byte) bool {
	if h.peppered != (len(pepper) > 0) {
		if h.peppered {
			return false // nothing can be compared with it
		}
		pepper = nil // from before there was a pepper
	}
	other := HashOf(secret, pepper)
	return subtle.ConstantTimeCompare(h.sum[:], other.sum[:]) == 1
}
