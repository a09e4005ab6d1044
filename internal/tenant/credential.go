package tenant

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// Prefix begins every API key, so that people and scanners for secrets know one.
const Prefix = "cg_"

const (
	idLen     = 16 // 80 bits
	secretLen = 32 // 160 bits
	// credentialLen is of cg_ID_SECRET. It fits into one block of SHA-256.
	credentialLen = len(Prefix) + idLen + 1 + secretLen
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

// NewCredential makes a key's id and secret.
func NewCredential() (id, secret string) { return random(idLen), random(secretLen) }

func random(chars int) string {
	raw := make([]byte, chars*5/8)
	_, _ = rand.Read(raw) // it never fails
	return base32.NewEncoding(alphabet).EncodeToString(raw)
}

// Credential is the API key of an id and a secret, as callers show it.
func Credential(id, secret string) string { return Prefix + id + "_" + secret }

// ParseCredential takes an API key apart. ok says no more than that it is built like one.
func ParseCredential(text string) (id, secret string, ok bool) {
	if len(text) != credentialLen || text[:len(Prefix)] != Prefix || text[len(Prefix)+idLen] != '_' {
		return "", "", false
	}
	return text[len(Prefix) : len(Prefix)+idLen], text[len(Prefix)+idLen+1:], true
}

// IsKeyID says whether a key may have this id.
func IsKeyID(id string) bool { return len(id) == idLen && strings.Trim(id, alphabet) == "" }

// Bearer is the credential in the value of an authorization header; "" if it is of
// another scheme (RFC 6750 §2.1, RFC 9110 §11.1).
func Bearer(authorization string) string {
	const scheme = "bearer "
	if len(authorization) < len(scheme) || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimLeft(authorization[len(scheme):], " ")
}
