package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// mux serves a capability behind net/http's ServeMux, which decodes and cleans paths.
func mux(t *testing.T, c *gatewaytest.Capability) (addr string) {
	t.Helper()
	server := grpc.NewServer()
	docpb.RegisterCapabilityServer(server, c)
	routes := http.NewServeMux()
	routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) })
	routes.HandleFunc("/selu.capability.Capability/", func(w http.ResponseWriter, r *http.Request) {
		r.RequestURI = r.URL.Path
		server.ServeHTTP(w, r)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	outer := &http.Server{Handler: routes, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- outer.Serve(ln) }()
	check.Cleanup(t, func() {
		if err := outer.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := check.Received(t, served, "the end of serving"); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// strange lists paths that some servers read as that of Invoke. They follow the service, without a slash.
var strange = []string{
	"/Invoke?", "/Invoke?a=b", "/%49nvoke", "/Invoke/", "//Invoke", "/Invoke;a=b", "/./Invoke",
	"/../selu.capability.Capability/Invoke",
	"%2fInvoke", "/Invoke%00", "/Invoke%20", "/Invoke%3f", "/x/../Invoke", "/Inv\u00f6ke", "/Invoke&x", "/Invoke,",
	"/Invoke'", "\\Invoke", "/1nvoke", "/",
}

// TestStrangePaths: a path that is not exactly /package.Service/Method, in the right case, reaches no backend
// and names no method.
func TestStrangePaths(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{mux(t, c)}, Dialect: call.Doc, Unprobed: true}}})
	peer := dialRaw(t, g)
	message := rawhttp2.Message([]byte(field(1, gatewaytest.Echo)))
	paths := []string{
		"/Selu.capability.Capability/Invoke", "/selu.capability.capability/Invoke",
		"/selu.capability.Capability/invoke",
		"/selu.capability.Capability/INVOKE",
		"//selu.capability.Capability/Invoke", "/selu.capability..Capability/Invoke",
		"/.selu.capability.Capability/Invoke", "/./selu.capability.Capability/Invoke",
		"/x/selu.capability.Capability/Invoke", "/selu%2ecapability.Capability/Invoke", "/Invoke",
		"/grpc.health.v1.Health/../selu.capability.Capability/Invoke",
	}
	for _, end := range strange {
		paths = append(paths, "/selu.capability.Capability"+end)
	}
	for _, path := range paths {
		if a := peer.call(plainFields(path), message); a.code != codes.Unimplemented || a.reason != "METHOD_UNKNOWN" {
			t.Errorf("%s: %v %s %q", path, a.code, a.reason, a.fields["grpc-message"])
		}
	}
	if seen := c.Seen(); len(seen) > 0 {
		t.Errorf("%d calls ran: %v", len(seen), seen)
	}
	if a := peer.call(plainFields("/selu.capability.Capability/Invoke"), message); a.code != codes.OK {
		t.Errorf("Invoke: %v", a)
	}
}

// TestMethodsOfCapabilities: capabilities have the methods of the dialects, and those that their fleet lists.
func TestMethodsOfCapabilities(t *testing.T) {
	t.Parallel()
	b := &recordingBackend{answer: [][]byte{nil}}
	served := gatewaytest.Serve(t, func(*grpc.Server) {}, grpc.UnknownServiceHandler(b.serve),
		grpc.ForceServerCodec(rawCodec{}))
	fleet := func(name string, services, methods []string) gatewaytest.Fleet {
		return gatewaytest.Fleet{Capability: name, Services: services, Methods: methods,
			Backends: []string{served.Addr}, Dialect: call.Live, Unprobed: true}
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{
		fleet("caps", nil, nil),
		fleet("more", []string{"test.Files", dialect.LiveService},
			[]string{dialect.LiveService + "/Describe", "test.Other/Get", "test.All/*"}),
	}})
	peer := dialRaw(t, g)
	for path, at := range map[string]string{
		"/" + dialect.LiveService + "/Invoke":   "caps more",
		"/" + dialect.LiveService + "/Describe": "more",
		"/" + dialect.LiveService + "/describe": "",
		"/" + dialect.LiveService + "/Shutdown": "",
		"/" + dialect.DocService + "/Describe":  "",
		"/test.Files/Any":                       "more",
		"/test.files/Any":                       "",
		"/test.Other/Get":                       "more",
		"/test.Other/Set":                       "",
		"/test.All/Set":                         "more",
		"/test.Al/Set":                          "",
		"/test.All/":                            "",
		"/test.All/*":                           "",
		"/openparallax.v1.ClientService/Any":    "",
	} {
		for _, capability := range []string{"caps", "more"} {
			want := codes.Unimplemented
			if strings.Contains(at, capability) {
				want = codes.OK
			}
			a := peer.call(plainFields(path, "x-capability-id", capability), rawhttp2.Message(nil))
			if a.code != want || a.code != codes.OK && a.reason != "METHOD_UNKNOWN" {
				t.Errorf("%s of %s: %v %s", path, capability, a.code, a.reason)
			}
		}
	}
}
