package kubetest

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// Object is the JSON of an object.
type Object = map[string]any

// Server is an API server on loopback. It keeps all versions of its objects, so that a watch can begin at any of them
// until Expire.
type Server struct {
	URL, CAFile, TokenFile string

	http *httptest.Server

	mu       sync.Mutex
	version  int
	oldest   int               // the oldest version at which a watch may begin
	objects  map[string]Object // by path
	events   []change
	changed  chan struct{} // closed and replaced with each event
	cut      chan struct{} // closed and replaced by Cut
	over     chan struct{} // closed and replaced by EndWatches
	token    string
	denied   map[string]bool // verb and resource, as in "watch endpointslices"
	pair     tls.Certificate
	brief    bool // the rest of the next list expires
	away     bool
	expiring Expiry
	delay    time.Duration
	requests map[string]int          // by verb and resource
	queries  map[string][]url.Values // of lists and watches, by resource
	watches  int                     // running watches
	arrived  chan struct{}           // has a token after a request
}

// change is one event of a resource.
type change struct {
	version         int
	kind            string // ADDED, MODIFIED, DELETED or BOOKMARK
	plural, in, key string
	object          Object
	before          Object // the former version; nil: none
}

// Expiry is the way in which a server rejects an old version.
type Expiry int

// The kinds of Expiry.
const (
	AsStatus Expiry = iota // HTTP status 410
	AsEvent                // event ERROR in a watch
)

// Start runs a server without objects, until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{version: 100, oldest: 1, objects: map[string]Object{}, changed: make(chan struct{}),
		cut: make(chan struct{}), over: make(chan struct{}), denied: map[string]bool{}, requests: map[string]int{},
		queries: map[string][]url.Values{}, arrived: make(chan struct{}, 1)}
	dir := t.TempDir()
	s.CAFile, s.TokenFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	s.Reissue(t)
	s.Rotate(t, "first-token")
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.EnableHTTP2 = true
	s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
				Certificates: []tls.Certificate{s.pair}}, nil
		}}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)

	s.http.StartTLS()
	s.URL = s.http.URL
	check.Cleanup(t, func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Rotate writes a new token, and accepts only it.
func (s *Server) Rotate(t testing.TB, token string) {
	t.Helper()
	check.Must(t, os.WriteFile(s.TokenFile, []byte(token+"\n"), 0o600))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Forget makes the server reject the token in the file.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = "another-token"
}

// Reissue writes a new authority, and uses a certificate of it for new connections. Existing connections are closed.
func (s *Server) Reissue(t testing.TB) {
	t.Helper()
	authority := certtest.New(t)
	check.Must(t, os.WriteFile(s.CAFile, []byte(authority.PEM), 0o600))
	s.mu.Lock()
	s.pair = authority.Server(t)
	s.mu.Unlock()
	if s.http != nil {
		s.http.CloseClientConnections()
	}
}

// ExpireAfterPage makes the rest of the next list in pages unknown.
func (s *Server) ExpireAfterPage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brief = true
}

// Put creates or replaces an object of a resource.
func (s *Server) Put(plural, namespace, name string, object Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := plural + "/" + namespace + "/" + name
	kind := "MODIFIED"
	if s.objects[key] == nil {
		kind = "ADDED"
	}
	s.version++
	meta, _ := object["metadata"].(Object)
	next := Object{"name": name, "namespace": namespace, "resourceVersion": strconv.Itoa(s.version),
		"uid": "uid-of-" + name, "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": []any{Object{
			"manager": "kube-controller-manager", "operation": "Update", "fieldsType": "FieldsV1",
			"fieldsV1": Object{"f:endpoints": Object{}}}}}
	for field, value := range meta {
		next[field] = value
	}
	whole := Object{}
	for field, value := range object {
		whole[field] = value
	}
	whole["metadata"] = next
	before := s.objects[key]
	s.objects[key] = whole
	s.record(change{s.version, kind, plural, namespace, key, whole, before})
}

// Delete deletes an object.
func (s *Server) Delete(plural, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := plural + "/" + namespace + "/" + name
	object := s.objects[key]
	if object == nil {
		return
	}
	delete(s.objects, key)
	s.version++
	last := Object{}
	for field, value := range object {
		last[field] = value
	}
	meta := Object{}
	for field, value := range object["metadata"].(Object) {
		meta[field] = value
	}
	meta["resourceVersion"] = strconv.Itoa(s.version)
	last["metadata"] = meta
	s.record(change{s.version, "DELETED", plural, namespace, key, last, object})
}

// record adds an event and wakes the watches. The caller holds s.mu.
func (s *Server) record(c change) {
	s.events = append(s.events, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Bookmark sends the current version to all watches.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++ // of another resource
	s.record(change{version: s.version, kind: "BOOKMARK"})
}

// Expire expires all versions before the next change, in the given way.
func (s *Server) Expire(how Expiry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++ // of another resource
	s.oldest, s.expiring = s.version, how
}

// Cut closes all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	close(s.cut)
	s.cut = make(chan struct{})
	s.mu.Unlock()
}

// EndWatches ends all watches as their timeouts do, after the events so far.
func (s *Server) EndWatches() {
	s.mu.Lock()
	close(s.over)
	s.over = make(chan struct{})
	s.mu.Unlock()
}

// Away makes the server close each connection without a response, or ends that.
func (s *Server) Away(away bool) {
	s.mu.Lock()
	s.away = away
	s.mu.Unlock()
	if away {
		s.Cut()
	}
}

// Slow delays the beginning of each response.
func (s *Server) Slow(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

// Deny removes a verb for a resource from the token's role, or restores it.
func (s *Server) Deny(verb, plural string, denied bool) {
	s.set(verb, plural, denied)
	if denied {
		s.Cut()
	}
}

// DenyLists does the same with the verb list. Watches continue.
func (s *Server) DenyLists(plural string, denied bool) { s.set("list", plural, denied) }

func (s *Server) set(verb, plural string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[verb+" "+plural] = denied
}

// Requests returns the number of requests with a verb for a resource.
func (s *Server) Requests(verb, plural string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[verb+" "+plural]
}

// Queries returns the parameters of all requests for a resource.
func (s *Server) Queries(plural string) []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries[plural])
}

// Watches returns the number of watches that run.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// Arrived has a token after one or more requests.
func (s *Server) Arrived() <-chan struct{} { return s.arrived }
