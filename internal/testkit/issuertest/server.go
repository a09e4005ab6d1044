package issuertest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// asIssuer is the argument that starts a process as an issuer, followed by the directory of its certificate and keys,
// and its address.
const asIssuer = "as-an-issuer-of-tokens"

// Main runs an issuer if this process was started as one. Then it does not return.
func Main() {
	if len(os.Args) == 4 && os.Args[1] == asIssuer {
		log.Fatal(serve(os.Args[2], os.Args[3]))
	}
}

// server is the issuer in its process.
type server struct {
	url  string
	file string // of its keys, for the next start

	mu       sync.Mutex
	keys     []*signer // the last one of an algorithm signs
	behave   string    // "": valid
	requests int       // for its keys
	people   people
}

func serve(dir, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &server{url: "https://" + ln.Addr().String(), file: filepath.Join(dir, "keys"),
		people: people{codes: map[string]*login{}}}
	if err = s.load(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.discovery)
	mux.HandleFunc("GET /keys", s.published)
	mux.HandleFunc("GET /auth", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /test/people", s.setPeople)
	mux.HandleFunc("GET /test/logins", s.countLogins)
	mux.HandleFunc("POST /test/sign/{alg}", s.sign)
	mux.HandleFunc("POST /test/rotate", s.rotate)
	mux.HandleFunc("POST /test/behave", s.misbehave)
	mux.HandleFunc("GET /test/requests", s.count)
	mux.HandleFunc("GET /test/keys", s.writeKeys)
	fmt.Println(ln.Addr())
	// clients that do not trust it are a test's concern
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	return server.ServeTLS(ln, filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
}

func (s *server) discovery(w http.ResponseWriter, r *http.Request) {
	if s.wrong(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	doc := map[string]any{"issuer": s.url, "jwks_uri": s.url + "/keys", "authorization_endpoint": s.url + "/auth",
		"token_endpoint": s.url + "/token", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true}
	if words, ok := strings.CutPrefix(s.behave, "scopes "); ok {
		doc["scopes_supported"] = strings.Fields(words)
	}
	switch s.behave {
	case "other issuer":
		doc["issuer"] = "https://other.example.com"
	case "cleartext token endpoint":
		doc["token_endpoint"] = "http://tokens.example.com/token"
	case "no iss", "iss of another":
		delete(doc, "authorization_response_iss_parameter_supported")
	case "cleartext keys":
		doc["jwks_uri"] = "http://keys.example.com/keys"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc)
}

func (s *server) published(w http.ResponseWriter, r *http.Request) {
	if s.wrong(w, r) {
		return
	}
	s.mu.Lock()
	s.requests++
	none := s.behave == "no keys"
	s.mu.Unlock()
	if none {
		_, _ = io.WriteString(w, `{"keys":[]}`)
		return
	}
	s.writeKeys(w, r)
}

func (s *server) writeKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []any{}
	for _, k := range s.keys {
		all = append(all, k.public())
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": all})
}

// wrong sends an invalid response.
func (s *server) wrong(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	how := s.behave
	s.mu.Unlock()
	switch how {
	case "500":
		http.Error(w, "canary-of-an-answer", http.StatusInternalServerError)
	case "redirect":
		http.Redirect(w, r, "/test/elsewhere", http.StatusFound)
	case "garbage":
		_, _ = io.WriteString(w, "<html>canary-of-an-answer")
	case "huge":
		for range 64 {
			_, _ = io.WriteString(w, strings.Repeat(" ", 1<<16))
		}
	case "silence":
		<-r.Context().Done()
	default:
		return false
	}
	s.mu.Lock()
	s.requests++
	s.mu.Unlock()
	return true
}

// sign responds with the posted text and its signature by the current key. PS256 uses the key of RS256.
func (s *server) sign(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		alg := r.PathValue("alg")
		if k.alg != alg && (k.alg != "RS256" || alg != "PS256") || err != nil {
			continue
		}
		var signature []byte
		if signature, err = k.sign(text, alg); err == nil {
			text = append(append(text, '.'), base64.RawURLEncoding.EncodeToString(signature)...)
		}
		_, _ = w.Write(text)
		return
	}
	http.Error(w, "no such key", http.StatusNotFound)
}

// rotate creates new keys. The RSA key only gets a new id, because creating one takes long. ?keep=true keeps the old
// ones published.
func (s *server) rotate(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := newSigners(rand.Text()[:6], s.keys[0].private)
	if keep, _ := strconv.ParseBool(r.FormValue("keep")); keep {
		next = append(next, s.keys...)
	}
	s.keys = next
	if err == nil {
		err = s.save()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *server) misbehave(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behave = r.FormValue("as")
}

func (s *server) count(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(w, strconv.Itoa(s.requests))
}

func (s *server) countLogins(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(w, strconv.Itoa(s.people.logins))
}
