package tenant

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// Prefix begins every API key, so that people and secret scanners recognize one.
const Prefix = "cg_"

const (
	idLen     = 16 // 80 bits
	secretLen = 32 // 160 bits
	// credentialLen is the length of cg_ID_SECRET. It fits into one block of SHA-256.
	credentialLen = len(Prefix) + idLen + 1 + secretLen
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

// NewCredential returns the id and the secret of a new key.
func NewCredential() (id, secret string) { return random(idLen), random(secretLen) }

func random(chars int) string {
	raw := make([]byte, chars*5/8)
	_, _ = rand.Read(raw) // never fails
	return base32.NewEncoding(alphabet).EncodeToString(raw)
}

// Credential returns the API key with an id and a secret, as callers send it.
func Credential(id, secret string) string { return Prefix + id + "_" + secret }

// ParseCredential splits an API key. It checks only the form.
func ParseCredential(text string) (id, secret string, ok bool) {
	if len(text) != credentialLen || text[:len(Prefix)] != Prefix || text[len(Prefix)+idLen] != '_' {
		return "", "", false
	}
	return text[len(Prefix) : len(Prefix)+idLen], text[len(Prefix)+idLen+1:], true
}

// IsKeyID reports whether id has the form of a key's id.
func IsKeyID(id string) bool { return len(id) == idLen && strings.Trim(id, alphabet) == "" }

// Bearer returns the credential in an authorization header, or "" for another scheme (RFC 6750 §2.1, RFC 9110
// §11.1).
func Bearer(authorization string) string {
	const scheme = "bearer "
	if token, usual := strings.CutPrefix(authorization, "Bearer "); usual && !strings.HasPrefix(token, " ") {
		return token
	}
	if len(authorization) < len(scheme) || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimLeft(authorization[len(scheme):], " ")
}
