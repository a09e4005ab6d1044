package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Download is the one request that a signed URL permits.
type Download struct{ Capability, Artifact, Session string }

// SignedGrant is the content of a signature.
type SignedGrant struct {
	Download
	Tenant  string
	Key     string    // id of the key that requested it, for records
	Expires time.Time // in whole seconds

	uid      string // uid of the tenant, as in Settings
	keyBound bool   // Key is an API key's id, and has to be valid
}

const (
	// maxSignature is the maximum length of a signature, in bytes.
	maxSignature = 8 << 10
	// signed is the prefix of the signed text, which separates it from other uses of the key.
	signed = "capgate signed download 1\n"
)

// sign encodes and signs a grant. The result is the credential of a call.
func (g *SignedGrant) sign(key []byte) string {
	held := ""
	if g.keyBound {
		held = "1"
	}
	says := url.Values{
		"t": {g.Tenant}, "i": {g.uid}, "k": {g.Key}, "c": {g.Capability}, "a": {g.Artifact}, "s": {g.Session},
		"e": {strconv.FormatInt(g.Expires.Unix(), 10)},
		"h": {held},
	}
	for name, value := range says {
		if value[0] == "" {
			delete(says, name)
		}
	}
	text := says.Encode()
	return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." +
		base64.RawURLEncoding.EncodeToString(macOf(key, text))
}

func macOf(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed + text))
	return mac.Sum(nil)
}

// readGrant decodes and verifies the result of sign with one of the keys; nil: it does not verify. The result
// has no part of token.
func readGrant(token string, keys [][]byte) *SignedGrant {
	payload, tag, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxSignature {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil
	}
	mac, err := base64.RawURLEncoding.DecodeString(tag)
	if err != nil {
		return nil
	}
	good := false
	for _, key := range keys {
		if hmac.Equal(mac, macOf(key, string(text))) { // constant time
			good = true
		}
	}
	if !good {
		return nil
	}
	says, err := url.ParseQuery(string(text))
	seconds, number := strconv.ParseInt(says.Get("e"), 10, 64)
	if err != nil || number != nil {
		return nil
	}
	return &SignedGrant{
		Download: Download{says.Get("c"), says.Get("a"), says.Get("s")},
		Tenant:   says.Get("t"), Key: says.Get("k"), Expires: time.Unix(seconds, 0), uid: says.Get("i"),
		keyBound: says.Get("h") != "",
	}
}
