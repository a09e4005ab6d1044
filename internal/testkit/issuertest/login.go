package issuertest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// login is the authorization request (OpenID Connect Core §3.1) behind a code, which its person has granted.
type login struct {
	client, redirect, challenge, nonce string
	resource                           string         // audience of the access token (RFC 8707); "" for any
	claims                             map[string]any // of the person
	used                               bool
}

// people are the sign-ins of a server. The lock is the server's.
type people struct {
	codes   map[string]*login
	person  map[string]any    // claims of the person who signs in; nil for ann
	clients map[string]string // secrets by client; if empty, every client is known and public
	logins  int               // codes that have been exchanged for tokens
}

// authorize redirects a browser back with a code, as if its person had signed in and consented.
func (s *server) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	_, known := s.people.clients[q.Get("client_id")]
	to, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case err != nil || to.Host == "" || len(s.people.clients) > 0 && !known:
		http.Error(w, "unknown client or redirect_uri", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" ||
		q.Get("nonce") == "" && q.Get("resource") == "" || len(q.Get("code_challenge")) != 43:
		http.Error(w, "a code with PKCE (S256), state and nonce, or a resource, is required", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	switch s.behave {
	case "denied":
		back.Set("error", "access_denied")
		back.Set("error_description", "<b>canary-of-an-answer</b>")
	default:
		code := rand.Text()
		s.people.codes[code] = &login{client: q.Get("client_id"), redirect: q.Get("redirect_uri"),
			challenge: q.Get("code_challenge"), nonce: q.Get("nonce"), resource: q.Get("resource"),
			claims: maps.Clone(s.people.person)}
		back.Set("code", code)
	}
	switch s.behave {
	case "no iss", "missing iss":
	case "iss of another":
		back.Set("iss", "https://other.example.com")
	default:
		back.Set("iss", s.url) // RFC 9207
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// token exchanges a code, once (RFC 6749 §4.1.3, RFC 7636 §4.6).
func (s *server) token(w http.ResponseWriter, r *http.Request) {
	if s.wrong(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	client, secret, basic := r.BasicAuth()
	if basic { // RFC 6749 §2.3.1
		client, _ = url.QueryUnescape(client)
		secret, _ = url.QueryUnescape(secret)
	} else {
		client, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	l := s.people.codes[r.PostFormValue("code")]
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if l == nil || l.used || r.PostFormValue("grant_type") != "authorization_code" || l.client != client ||
		s.people.clients[client] != secret || l.redirect != r.PostFormValue("redirect_uri") ||
		l.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"canary-of-an-answer"}`)
		return
	}
	l.used = true
	s.people.logins++
	access := rand.Text()
	if l.resource != "" {
		access = s.jwt(l, l.resource)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300,
		"id_token": s.jwt(l, l.client)})
}

// jwt returns a token of a login: for a client the ID token, for a resource the access token.
func (s *server) jwt(l *login, audience string) string {
	now := time.Now()
	claims := map[string]any{"iss": s.url, "aud": audience, "sub": "ann", "tenant_id": "acme", "scope": "invoke read",
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "nonce": l.nonce}
	maps.Copy(claims, l.claims)
	typ := "JWT"
	if audience == l.resource {
		typ = "at+jwt" // RFC 9068 §2.1
		delete(claims, "nonce")
	}
	switch s.behave {
	case "wrong nonce":
		claims["nonce"] = "another"
	case "no nonce":
		delete(claims, "nonce")
	case "wrong audience":
		claims["aud"] = "another"
	case "two audiences":
		claims["aud"] = []string{l.client, "another"}
	case "wrong azp":
		claims["azp"] = "another"
	case "expired":
		claims["exp"] = now.Add(-time.Hour).Unix()
	case "wrong issuer":
		claims["iss"] = "https://other.example.com"
	}
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	key := s.keys[slices.IndexFunc(s.keys, func(k *signer) bool { return k.alg == "ES256" })]
	header, _ := json.Marshal(map[string]any{"alg": key.alg, "kid": key.kid, "typ": typ}) // strings cannot fail
	payload, _ := json.Marshal(claims)                                                    // they came as JSON
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	signature, err := key.sign([]byte(text), key.alg)
	if err != nil || s.behave == "wrong signature" {
		signature = make([]byte, 64)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// setPeople sets the person who signs in, and the known clients.
func (s *server) setPeople(w http.ResponseWriter, r *http.Request) {
	var set struct {
		Person  map[string]any
		Clients map[string]string
	}
	if err := json.NewDecoder(r.Body).Decode(&set); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if set.Person != nil {
		s.people.person = set.Person
	}
	if set.Clients != nil {
		s.people.clients = set.Clients
	}
}
