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

// Download is all that a signed URL is good for.
type Download struct{ Capability, Artifact, Session string }

// SignedGrant is what a signature says.
type SignedGrant struct {
	Download
	Tenant  string
	Key     string    // of who asked for it, for the records
	Expires time.Time // in whole seconds

	uid      string // of the tenant, as Settings has it
	keyBound bool   // Key is an API key's id, and has to hold
}

const (
	// maxSignature is the longest signature that is looked at, in bytes.
	maxSignature = 8 << 10
	// signed is what is signed before all, so that the same key could be for other things.
	signed = "capgate signed download 1\n"
)

// sign is a grant as the credential of a call, under a key.
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

// readGrant reads what sign wrote under one of some keys; nil: that did not. The answer has no
// part of token.
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
		if hmac.Equal(mac, macOf(key, string(text))) { // in constant time
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
