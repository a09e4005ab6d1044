package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/builtin/signing"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// requestIDs matches what differs between otherwise equal responses.
var requestIDs = regexp.MustCompile(`"request_id":"\w+"`)

// tenantsOf is a directory of tenants that may change.
type tenantsOf struct {
	mu  sync.Mutex
	all map[string]*tenant.Settings
}

func (d *tenantsOf) Lookup(id string) (*tenant.Settings, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[id], true
}

func (d *tenantsOf) Settings(_ context.Context, id string) (*tenant.Settings, *call.Refusal) {
	s, _ := d.Lookup(id)
	return s, nil
}

func (d *tenantsOf) set(id string, s *tenant.Settings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[id] = s
}

// signedFiles is a gateway that signs URLs, with one backend.
type signedFiles struct {
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability
	tenants    *tenantsOf
	ring       *keyring
	issued     *tenant.Keys
	keys       map[string]string // of the tenants acme and globex
	mu         sync.Mutex
	now        time.Time
}

func (f *signedFiles) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func startSigned(t *testing.T, change ...func(*gatewaytest.Options)) *signedFiles {
	t.Helper()
	f := &signedFiles{now: time.Now(), capability: gatewaytest.NewCapability("b1")}
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	all := settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}})
	keys.Replace(ring.keys, all, nil)
	f.keys, f.tenants, f.ring, f.issued = ring.credentials, &tenantsOf{all: all}, ring, keys
	redis := gatewaytest.StartRedis(t)
	signatures := tenant.NewSignatures(f.tenants, tenant.NewAuthenticators(tenant.Sources{File: keys}),
		sharedkey.New(redis.Open(t).Secret(), f.clock).Keys("urls"), f.clock)
	addr := f.capability.Serve(t, call.Doc).Addr
	o := gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{
			{Capability: "caps", Backends: []string{addr}, Unprobed: true, Affinity: sticky},
			{Capability: "other", Backends: []string{addr}, Unprobed: true, Affinity: sticky},
		},
		Authenticator: tenant.NewAuthenticators(tenant.Sources{File: keys, Listeners: tenant.NewListeners(f.tenants)}),
		Signed:        signatures, Store: redis.Open(t).Sessions(),
		Services: func(s grpc.ServiceRegistrar) {
			capgatepb.RegisterArtifactsServer(s, signing.New(signing.Config{
				Signer: signatures, Finder: func() signing.Finder { return f.gateway },
				MaxTTL: time.Hour, Now: f.clock,
			}))
		},
	}
	for _, c := range change {
		c(&o)
	}
	f.gateway = gatewaytest.Start(t, o)
	return f
}

// sign requests a signed URL on behalf of a tenant.
func (f *signedFiles) sign(t *testing.T, client *http.Client, of, path, body string) (answered, string) {
	t.Helper()
	a := transfer(t, client, http.MethodPost, f.gateway.URL(path+"/signed-url"), strings.NewReader(body), "X-Api-Key",
		f.keys[of])
	var signed struct {
		Expire string `json:"expire_time"`
	}
	_ = json.Unmarshal(a.body, &signed)
	if end, err := time.Parse(time.RFC3339, signed.Expire); a.StatusCode == 200 &&
		(err != nil || end.Before(f.clock())) {
		t.Errorf("got %s", a.body)
	}
	return a, urlOf(a)
}

// urlOf returns the signed URL in a response.
func urlOf(a answered) string {
	var signed struct {
		URL string `json:"url"`
	}
	_ = json.Unmarshal(a.body, &signed)
	return signed.URL
}

// TestSignedURLs: a URL permits anyone to download one file of a tenant, and nothing else.
func TestSignedURLs(t *testing.T) {
	t.Parallel()
	f := startSigned(t)
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath+"?filename=a.txt"),
			strings.NewReader("acme's"), "X-Api-Key", f.keys["acme"], "X-Session-Id", "s1").uploaded(t)
		a, url := f.sign(t, client, "acme", up.Path, `{"ttl":"10m","session_id":"s1"}`)
		if a.StatusCode != 200 || !strings.HasPrefix(url, up.Path+"?signature=") {
			t.Fatalf("%s: %s %s; url %+v", protocol.name, a.Status, a.body, url)
		}
		for _, header := range [][]string{nil, {"Authorization", "Basic eDp5"},
			{"X-Api-Key", f.keys["globex"], "X-Session-Id", "s2", "X-User-Id", "x"}} {
			for _, query := range []string{"", "&disposition=inline"} {
				down := transfer(t, client, http.MethodGet, f.gateway.URL(url+query), nil, header...)
				if down.StatusCode != 200 || string(down.body) != "acme's" {
					t.Errorf("%s, %v: %s %s", protocol.name, header, down.Status, down.body)
				}
			}
		}
		if head := transfer(t, client, http.MethodHead, f.gateway.URL(url), nil); head.StatusCode != 200 ||
			head.ContentLength != 6 {
			t.Errorf("%s: %s %v", protocol.name, head.Status, head.Header)
		}
		f.refused(t, client, up.Path, url)
	}
}

// refused makes requests that a URL does not permit.
func (f *signedFiles) refused(t *testing.T, client *http.Client, path, url string) {
	t.Helper()
	_, signature, _ := strings.Cut(url, "?")
	second := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), strings.NewReader("another"), "X-Api-Key",
		f.keys["acme"]).uploaded(t)
	var texts []string
	for what, bad := range map[string]string{
		"another file": second.Path + "?" + signature, "another capability": strings.Replace(url, "/caps/", "/other/",
			1),
		"forged": url[:len(url)-5] + "AAAAA", "garbled": path + "?signature=%00", "nothing": path + "?signature=",
		"nobody's": filesPath + "/nothing?" + signature,
	} {
		down := transfer(t, client, http.MethodGet, f.gateway.URL(bad), nil)
		if down.StatusCode != http.StatusForbidden || !strings.Contains(string(down.body), "SIGNATURE_INVALID") {
			t.Errorf("%s: %s %s", what, down.Status, down.body)
		}
		texts = append(texts, string(down.body))
	}
	before := f.clock()
	f.mu.Lock()
	f.now = before.Add(11 * time.Minute)
	f.mu.Unlock()
	late := transfer(t, client, http.MethodGet, f.gateway.URL(url), nil)
	f.mu.Lock()
	f.now = before
	f.mu.Unlock()
	for _, text := range texts {
		if requestIDs.ReplaceAllString(text, "") != requestIDs.ReplaceAllString(string(late.body), "") {
			t.Errorf("an expired URL got %s, others %s", late.body, text)
		}
	}
	// As a credential of gRPC it permits the same.
	caps := docpb.NewCapabilityClient(f.gateway.Conn(t))
	token := strings.TrimPrefix(signature, "signature=")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capgate-signature", token)
	_, err := caps.Invoke(ctx, request(gatewaytest.Echo, `{}`))
	wants(t, err, codes.PermissionDenied, "SIGNATURE_INVALID")
	_, err = capgatepb.NewCatalogClient(f.gateway.Conn(t)).ListCapabilities(ctx, &capgatepb.ListCapabilitiesRequest{})
	wants(t, err, codes.PermissionDenied, "SIGNATURE_INVALID")
	_, err = caps.Invoke(metadata.AppendToOutgoingContext(ctx, "x-api-key", f.keys["acme"]),
		request(gatewaytest.Echo, `{}`))
	wants(t, err, codes.Unauthenticated, "CREDENTIAL_INVALID")
}

// TestSignedURLsOfTenants: another tenant's file does not exist, and a URL is valid as long as its tenant may
// download the file itself.
func TestSignedURLsOfTenants(t *testing.T) {
	t.Parallel()
	f := startSigned(t)
	client := f.gateway.HTTP1(t)
	up := transfer(t, client, http.MethodPost, f.gateway.URL(filesPath), strings.NewReader("acme's"), "X-Api-Key",
		f.keys["acme"]).uploaded(t)
	theirs, _ := f.sign(t, client, "globex", up.Path, `{}`)
	absent, _ := f.sign(t, client, "globex", filesPath+"/nobodys", `{}`)
	if theirs.StatusCode != http.StatusNotFound || !strings.Contains(string(theirs.body), "ARTIFACT_UNKNOWN") ||
		requestIDs.ReplaceAllString(string(theirs.body), "") != requestIDs.ReplaceAllString(string(absent.body), "") {
		t.Errorf("got %s %s, %s", theirs.Status, theirs.body, absent.body)
	}
	down := transfer(t, client, http.MethodGet, f.gateway.URL(up.Path), nil, "X-Api-Key", f.keys["globex"])
	if down.StatusCode != http.StatusNotFound || !strings.Contains(string(down.body), "ARTIFACT_UNKNOWN") {
		t.Errorf("got %s %s", down.Status, down.body)
	}
	for _, bad := range []string{`{"ttl":"2h"}`, `{"ttl":"0s"}`, `{"ttl":"soon"}`, `{"ttl":"-1m"}`} {
		if a, _ := f.sign(t, client, "acme", up.Path, bad); a.StatusCode != 400 ||
			!strings.Contains(string(a.body), "SIGNED_URL_INVALID") {
			t.Errorf("%s: %s %s", bad, a.Status, a.body)
		}
	}
	_, url := f.sign(t, client, "acme", up.Path, `{}`)
	acme, _ := f.tenants.Lookup("acme")
	for what, change := range map[string]struct {
		settings *tenant.Settings
		status   int
	}{
		"there": {acme, 200}, "gone": {nil, 403},
		"off":         {&tenant.Settings{ID: "acme", Disabled: true, Capabilities: acme.Capabilities}, 403},
		"not granted": {settings(t, map[string][]string{"acme": {"other"}})["acme"], 404},
	} {
		f.tenants.set("acme", change.settings)
		if down := transfer(t, client, http.MethodGet, f.gateway.URL(url), nil); down.StatusCode != change.status {
			t.Errorf("%s: %s %s", what, down.Status, down.body)
		}
	}
	f.tenants.set("acme", acme)
	for keys, status := range map[int]int{1: 403, 0: 200} { // without the first key, and with all
		f.issued.Replace(f.ring.keys[keys:], map[string]*tenant.Settings{"acme": acme}, nil)
		if down := transfer(t, client, http.MethodGet, f.gateway.URL(url), nil); down.StatusCode != status {
			t.Errorf("without %d keys: %s %s", keys, down.Status, down.body)
		}
	}
	if log := f.gateway.Log.String(); strings.Contains(log, "signature=") ||
		strings.Contains(log, strings.Split(url, "signature=")[1]) {
		t.Errorf("the log has a signature; log %+v", log)
	}
}

// signedRoom is a set of backends that share files behind a gateway that signs URLs. Each session has its
// backend.
type signedRoom struct {
	*signedFiles
	room
}

func newSignedRoom(t *testing.T) *signedRoom {
	t.Helper()
	r := &signedRoom{}
	for i := range 4 {
		c := gatewaytest.NewCapability(fmt.Sprint("b", i))
		c.Files = "shared"
		r.all, r.addrs = append(r.all, c), append(r.addrs, c.Serve(t, call.Doc).Addr)
	}
	r.signedFiles = startSigned(t, func(o *gatewaytest.Options) {
		fleet := r.fleet(call.Doc)
		fleet.Affinity = router.Affinity{Sessions: true}
		o.Fleets = []gatewaytest.Fleet{fleet}
	})
	return r
}

// download makes one, and returns the backend that served it and the sessions that it received.
func (r *signedRoom) download(t *testing.T, by func(url, session string) error, url, session string) (name string,
	got []string) {
	t.Helper()
	before := map[string]int{}
	for _, c := range r.all {
		before[c.Name] = len(c.Seen())
	}
	check.Must(t, by(url, session))
	for _, c := range r.all {
		if seen := c.Seen(); len(seen) > before[c.Name] {
			name, got = name+c.Name, seen[len(seen)-1].Metadata.Get("x-session-id")
		}
	}
	return name, got
}

// TestSignedURLsOfSessions: a download by a signed URL belongs to the signed session, or to none. The session
// header of the request neither reaches nor selects a backend, and pins nothing.
func TestSignedURLsOfSessions(t *testing.T) {
	t.Parallel()
	r := newSignedRoom(t)
	client, grpcClient := r.gateway.HTTP2(t), gatewaytest.NewClient(r.gateway.Conn(t), call.Doc)
	home := func(session string) string {
		served, err := inSession(bearer(t.Context(), r.keys["acme"]), grpcClient, session)
		check.Must(t, err)
		return served
	}
	here, other := home("s1"), "s2"
	for i := 3; home(other) == here; i++ {
		other = fmt.Sprint("s", i)
	}
	up := transfer(t, client, http.MethodPost, r.gateway.URL(filesPath), strings.NewReader("acme's"), "X-Api-Key",
		r.keys["acme"], "X-Session-Id", "s1").uploaded(t)
	for _, c := range r.all {
		if c.Kept() == 0 {
			c.Keep(gatewaytest.File{Data: []byte("acme's")})
		}
	}
	_, ofSession := r.sign(t, client, "acme", up.Path, `{"session_id":"s1"}`)
	_, ofNone := r.sign(t, client, "acme", up.Path, `{}`)
	pinned := r.gateway.Metrics(t)[`capgate_affinity_known{what="sessions"}`]
	got := func(data string, err error) error {
		if err == nil && data != "acme's" {
			err = fmt.Errorf("got %q", data)
		}
		return err
	}
	overHTTP := func(c *http.Client) func(string, string) error {
		return func(url, session string) error {
			down := transfer(t, c, http.MethodGet, r.gateway.URL(url), nil, "X-Session-Id", session)
			return got(string(down.body), down.err)
		}
	}
	for way, by := range map[string]func(url, session string) error{
		"HTTP/1.1": overHTTP(r.gateway.HTTP1(t)), "HTTP/2": overHTTP(client),
		"gRPC": func(url, session string) error {
			_, signature, _ := strings.Cut(url, "?signature=")
			ctx := with(t.Context(), "x-capgate-signature", signature, "x-session-id", session)
			file, err := grpcClient.Download(ctx, up.ID)
			return got(string(file.Data), err)
		},
	} {
		used := map[string]bool{}
		for i := range 20 {
			if name, got := r.download(t, by, ofSession, other); name != here || len(got) != 1 || got[0] != "s1" {
				t.Errorf("%s: %s got the session %q, want %s to get s1", way, name, got, here)
			}
			name, got := r.download(t, by, ofNone, []string{other, "unknown"}[i%2])
			if used[name] = true; len(got) != 0 {
				t.Errorf("%s, no session: %s got the session %q", way, name, got)
			}
		}
		if len(used) == 1 {
			t.Errorf("%s, no session: all went to %v", way, used)
		}
	}
	if now := r.gateway.Metrics(t)[`capgate_affinity_known{what="sessions"}`]; now != pinned {
		t.Errorf("%v sessions are known, want %v", now, pinned)
	}
}
