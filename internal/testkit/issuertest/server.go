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

// asIssuer makes a process an issuer, with the directory of its certificate and keys, and its
// address, behind it.
const asIssuer = "as-an-issuer-of-tokens"

// Main makes this process an issuer if it was started as one. Then it does not return.
func Main() {
	if len(os.Args) == 4 && os.Args[1] == asIssuer {
		log.Fatal(serve(os.Args[2], os.Args[3]))
	}
}

// server is the issuer in its process.
type server struct {
	url  string
	file string // with its keys, from which it goes on when it is started again

	mu       sync.Mutex
	keys     []*signer // the last of an algorithm signs
	behave   string    // "": well
	requests int       // for its keys
}

func serve(dir, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &server{url: "https://" + ln.Addr().String(), file: filepath.Join(dir, "keys")}
	if err = s.load(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.discovery)
	mux.HandleFunc("GET /keys", s.published)
	mux.HandleFunc("POST /test/sign/{alg}", s.sign)
	mux.HandleFunc("POST /test/rotate", s.rotate)
	mux.HandleFunc("POST /test/behave", s.misbehave)
	mux.HandleFunc("GET /test/requests", s.count)
	mux.HandleFunc("GET /test/keys", s.writeKeys)
	fmt.Println(ln.Addr())
	// who does not trust it is a test's business
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	return server.ServeTLS(ln, filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
}

func (s *server) discovery(w http.ResponseWriter, r *http.Request) {
	if s.wrong(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	doc := map[string]any{"issuer": s.url, "jwks_uri": s.url + "/keys", "authorization_endpoint": s.url + "/auth"}
	switch s.behave {
	case "other issuer":
		doc["issuer"] = "https://other.example.com"
	case "cleartext keys":
		doc["jwks_uri"] = "http://keys.example.com/keys"
	}
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

// wrong answers as somebody does who is not well.
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

// sign answers what is posted with the signature of the current key behind it.
func (s *server) sign(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.alg != r.PathValue("alg") || err != nil {
			continue
		}
		var signature []byte
		if signature, err = k.sign(text); err == nil {
			text = append(append(text, '.'), base64.RawURLEncoding.EncodeToString(signature)...)
		}
		_, _ = w.Write(text)
		return
	}
	http.Error(w, "no such key", http.StatusNotFound)
}

// rotate makes other keys; that of RSA gets another id, as a new one takes long to make. ?keep=true goes on
// publishing those from before.
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
