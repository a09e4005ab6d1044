package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/capgate/capgate/internal/lib/aead"
)

// sealed are the uses of sealed texts, which cannot be exchanged for each other.
const (
	sealedSession  = "session"
	sealedState    = "state"
	sealedQuestion = "question"
)

// maxSealed is the length of the longest sealed text that is opened, in bytes.
const maxSealed = 2 << 10

// seals encrypts what clients keep for the gateway, so that every replica can read it and no client can change it. It
// is bound to its use and to the caller.
type seals struct {
	sealer *aead.Sealer
	caller string
}

// sealsFor returns the seals of a request's caller. Without keys, which replicas share, nothing is sealed or opened.
func (h *Handler) sealsFor(ctx context.Context, r *http.Request) seals {
	s := seals{sealer: &aead.Sealer{}}
	if h.cfg.Keys == nil {
		return s
	}
	s.caller = h.cfg.Caller(r)
	var derived [][]byte
	for _, key := range h.cfg.Keys(ctx) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("capgate mcp 1")) // the keys have other uses
		derived = append(derived, mac.Sum(nil))
	}
	if sealer, err := aead.New(derived); err == nil {
		s.sealer = sealer
	}
	return s
}

func (s seals) on() bool { return s.sealer.On() }

func (s seals) bond(use string) []byte { return []byte(use + "\n" + s.caller) }

// seal returns v as a text.
func (s seals) seal(use string, v any) string {
	text, _ := json.Marshal(v) // structs of texts and numbers always have JSON
	return base64.RawURLEncoding.EncodeToString(s.sealer.Seal(s.bond(use), text))
}

// open reads what seal returned for the same caller and use.
func (s seals) open(use, text string, v any) bool {
	if len(text) > maxSealed {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	if data, err = s.sealer.Open(s.bond(use), data); err != nil {
		return false
	}
	return json.Unmarshal(data, v) == nil
}
