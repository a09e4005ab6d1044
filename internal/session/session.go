package session

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/tenant"
)

// Kind is the port that a session is for. A session of one kind does not open as another.
type Kind string

// The kinds.
const (
	Admin Kind = "admin" // the admin API and the console
	Inbox Kind = "inbox" // approvals at the public port
	// Program is the admin API, for a program that a person has authorized. It is not a cookie.
	Program Kind = "program"
)

// The ways to sign in.
const (
	ViaPerson = "person" // at an issuer
	ViaKey    = "key"    // with an API key
	ViaStart  = "start"  // with the token that was printed at the start
)

// Session is a signed-in person or key. It is immutable once issued.
type Session struct {
	ID      string    `json:"id"`
	Via     string    `json:"via"`
	Issued  time.Time `json:"iat"`
	Expires time.Time `json:"exp"`
	CSRF    string    `json:"csrf"` // secret that requests with effects repeat in a header

	// of a person
	Issuer string   `json:"iss,omitempty"` // name of the issuer in the configuration
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Tenant string   `json:"tenant,omitempty"` // by the claims; "": none
	Scopes []string `json:"scopes,omitempty"` // by the claims

	// id of the API key, or a digest of the start token; "" for a person
	Key     string `json:"key,omitempty"`
	KeyName string `json:"key_name,omitempty"` // for people, when the session began

	Of string `json:"of,omitempty"` // tenant of the key; "": none
}

// owner returns the tenant that the session's revocation is charged to; without a tenant, the person or key.
func (s *Session) owner() string {
	if of := cmp.Or(s.Of, s.Tenant); of != "" {
		return "tenant " + of
	}
	return s.Name()
}

// Name names the person or the key in lists, in the audit log, and in revocations.
func (s *Session) Name() string {
	switch s.Via {
	case ViaPerson:
		return PersonName(s.User, s.Issuer)
	case ViaStart:
		return "start token"
	}
	return "key " + s.Key
}

// Title returns the Name for people, with the name that the key had.
func (s *Session) Title() string {
	if s.Via == ViaKey {
		return tenant.KeyLabel(s.Key, s.KeyName)
	}
	return s.Name()
}

// PersonName returns the Name of a person that an issuer has authenticated.
func PersonName(user, issuer string) string { return user + ", issuer " + issuer }

const (
	// MaxCookie bounds the text of a session, in bytes: browsers drop cookies above 4096 with name and attributes.
	MaxCookie = 3800
	// maxGroups bounds the groups in a session, in bytes.
	maxGroups = 1500
)

// KeepGroups returns the groups that fit into a session: first those that the configuration names, then others.
func KeepGroups(all []string, named func(string) bool) (kept []string) {
	room := maxGroups
	for _, first := range []bool{true, false} {
		for _, g := range all {
			if cost := len(g) + len(`"",`); named(g) == first && cost <= room {
				room -= cost
				kept = append(kept, g)
			}
		}
	}
	return kept
}

// errCookie is the error of a text that is no cookie of this gateway. It does not say why.
var errCookie = errors.New("not a cookie of this gateway")

// seal encrypts a value for one purpose.
func seal(by *aead.Sealer, purpose string, v any) (string, error) {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return "", err
	}
	sealed := base64.RawURLEncoding.EncodeToString(by.Seal(bond(purpose), text))
	if len(sealed) > MaxCookie {
		return "", errors.New("a name is too long for a cookie")
	}
	return sealed, nil
}

// open decrypts what seal returned for the same purpose.
func open(by *aead.Sealer, purpose, text string, v any) error {
	if text == "" || len(text) > MaxCookie {
		return errCookie
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(sealed) != text { // no line breaks
		return errCookie
	}
	plain, err := by.Open(bond(purpose), sealed)
	if err != nil || json.Unmarshal(plain, v) != nil {
		return errCookie
	}
	return nil
}

func bond(purpose string) []byte { return []byte("capgate cookie 1 " + purpose) }

// NewID returns a new random id.
func NewID() string { return rand.Text() }
