package kubereal_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubereal"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// server is a real API server, or the fake one.
type server struct {
	put    func(name string, o kubetest.Object)
	remove func(name string)
	open   func(ctx context.Context, path, token string) (*http.Response, error)
	expire func() // expires all versions so far
	tokens map[string]string
}

// answer holds the compared parts of a response.
type answer struct {
	Code     int
	Type     string
	Message  string   // of a status
	Messages []string // with the types of their fields, each once
}

// unlike lists the fields that the fake omits, or that no client reads.
var unlike = []string{".metadata.uid", ".metadata.generation", ".metadata.managedFields", ".metadata.creationTimestamp",
	".metadata.remainingItemCount", ".metadata.generateName", ".details", ".nodeName"}

// fields adds the fields of a value with their types.
func fields(into map[string]bool, at string, value any) {
	if slices.ContainsFunc(unlike, func(end string) bool { return strings.HasSuffix(at, end) }) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for name, of := range v {
			fields(into, at+"."+name, of)
		}
	case []any:
		for _, of := range v {
			fields(into, at+"[]", of)
		}
	case nil: // treated as an empty list
	default:
		into[fmt.Sprintf("%s %T", at, v)] = true
	}
}

// get returns the response to a request; for a watch, its first lines.
func (s *server) get(t *testing.T, path, token string, lines int) answer {
	t.Helper()
	ctx, cancel := context.WithCancel(check.Context(t))
	defer cancel()
	resp, err := s.open(ctx, path, s.tokens[token])
	check.Must(t, err)
	defer resp.Body.Close()
	a := answer{Code: resp.StatusCode, Type: resp.Header.Get("Content-Type")}
	in := bufio.NewScanner(io.LimitReader(resp.Body, 1<<20))
	in.Buffer(nil, 1<<20)
	for n := 0; (lines == 0 || n < lines) && in.Scan(); n++ {
		var o map[string]any
		if !strings.Contains(a.Type, "json") {
			a.Message = in.Text()
			continue
		}
		check.Must(t, json.Unmarshal(in.Bytes(), &o))
		if message, is := o["message"].(string); is {
			a.Message = number.ReplaceAllString(message, "0")
		}
		found := map[string]bool{}
		fields(found, "", o)
		text := strings.Join(slices.Sorted(maps.Keys(found)), "\n  ")
		if kind, is := o["type"].(string); is {
			text = kind + ":\n  " + text
		}
		a.Messages = append(a.Messages, text)
	}
	return a
}

// number matches a version in a message.
var number = regexp.MustCompile(`[0-9]+`)

const (
	toolSlices = "/apis/discovery.k8s.io/v1/namespaces/tools/endpointslices"
	chosen     = "?labelSelector=" + "kubernetes.io%2Fservice-name%3Dcaps"
)

// answers sends the same requests to any server.
func (s *server) answers(t *testing.T) map[string]answer {
	t.Helper()
	of := func(service string) kubetest.Object {
		return kubetest.Slice(service, 50051, kubetest.Endpoint{Addr: "10.64.1.1", Pod: "uid-1", Zone: "a"})
	}
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, of("caps"))
	}
	all := map[string]answer{}
	ask := func(what, path, token string, lines int) { all[what] = s.get(t, path, token, lines) }
	ask("a list", toolSlices+chosen, "good", 0)
	ask("a page", toolSlices+"?limit=2", "good", 0)
	rest := s.field(t, toolSlices+"?limit=2", "continue")
	ask("the rest", toolSlices+"?limit=2&continue="+url.QueryEscape(rest), "good", 0)
	ask("nothing", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"+chosen, "good", 0)
	ask("no token", toolSlices, "wrong", 0)
	ask("no role", toolSlices, "roleless", 0)
	ask("no role for a watch", toolSlices+"?watch=true", "roleless", 0)
	ask("an unknown version", "/apis/discovery.k8s.io/v7/endpointslices", "good", 0)
	version := s.field(t, toolSlices, "resourceVersion")
	s.put("d", of("caps"))
	s.put("d", kubetest.Slice("caps", 50052))
	s.put("e", of("another"))
	s.put("a", of("another")) // no longer chosen
	s.remove("b")
	const bookmarks = "&watch=true&allowWatchBookmarks=true&timeoutSeconds=9&resourceVersion="
	ask("a watch", toolSlices+chosen+bookmarks+version, "good", 4)
	s.expire()
	s.put("f", of("caps"))
	ask("an expired watch", toolSlices+chosen+bookmarks+version, "good", 1)
	ask("an expired rest", toolSlices+"?limit=2&continue="+url.QueryEscape(rest), "good", 0)
	return all
}

// field returns a field of the metadata of a list.
func (s *server) field(t *testing.T, path, name string) string {
	t.Helper()
	resp, err := s.open(check.Context(t), path, s.tokens["good"])
	check.Must(t, err)
	defer resp.Body.Close()
	var list struct{ Metadata map[string]any }
	check.Must(t, json.NewDecoder(resp.Body).Decode(&list))
	value, is := list.Metadata[name].(string)
	if !is {
		t.Fatalf("%s has no %s: %v", path, name, list.Metadata)
	}
	return value
}

// TestAPIServerAndTheFake: the fake API server of other tests responds like a real one.
func TestAPIServerAndTheFake(t *testing.T) {
	api := kubereal.Start(t)
	api.Namespace(t, "tools")
	api.CreateAccount(t, "default", "capgate")
	api.Namespace(t, "capgate")
	api.CreateAccount(t, "capgate", "capgate")
	api.Apply(t, kubereal.Object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": kubereal.Object{"name": "reader"}, "roleRef": kubereal.Object{
			"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{kubereal.Object{"kind": "ServiceAccount", "name": "capgate", "namespace": "default"}}})
	genuine := &server{
		put:    func(name string, o kubetest.Object) { api.Put(kubetest.EndpointSlices, "tools", name, o) },
		remove: func(name string) { api.Delete(kubetest.EndpointSlices, "tools", name) },
		open:   api.Open,
		expire: func() {
			api.Compact()
			api.StopServer()
			api.StartServer()
		},
		tokens: map[string]string{"good": api.Token(t, "default", "capgate"), "wrong": "wrong",
			"roleless": api.Token(t, "capgate", "capgate")},
	}
	want, got := genuine.answers(t), fakeServer(t).answers(t)
	for what, real := range want {
		fake := got[what]
		if fake.Code != real.Code || fake.Type != real.Type || fake.Message != real.Message {
			t.Errorf("%s: the fake sends %d %s %q, and the real one %d %s %q", what, fake.Code, fake.Type, fake.Message,
				real.Code, real.Type, real.Message)
		}
		if !slices.Equal(fake.Messages, real.Messages) {
			t.Errorf("%s: the fake sends\n%s\nand the real one\n%s", what, strings.Join(fake.Messages, "\n"),
				strings.Join(real.Messages, "\n"))
		}
	}
}

// fakeServer returns the fake API server.
func fakeServer(t *testing.T) *server {
	t.Helper()
	fake := kubetest.Start(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // on loopback
	check.Cleanup(t, transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return &server{
		put:    func(name string, o kubetest.Object) { fake.Put(kubetest.EndpointSlices, "tools", name, o) },
		remove: func(name string) { fake.Delete(kubetest.EndpointSlices, "tools", name) },
		open: func(ctx context.Context, path, token string) (*http.Response, error) {
			denied := token == "roleless"
			fake.Deny("list", kubetest.EndpointSlices, denied)
			fake.Deny("watch", kubetest.EndpointSlices, denied)
			if denied {
				token = "first-token"
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fake.URL+path, nil)
			if err != nil {
				return nil, err
			}
			req.Header.Set("Authorization", "Bearer "+token)
			return client.Do(req)
		},
		expire: func() { fake.Expire(kubetest.AsEvent) },
		tokens: map[string]string{"good": "first-token", "wrong": "wrong", "roleless": "roleless"},
	}
}
