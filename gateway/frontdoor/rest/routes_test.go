package rest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	enginerest "github.com/capgate/capgate/gateway/engine/rest"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// undescribed are routes that are no part of the API: what the page of the document is made of.
var undescribed = regexp.MustCompile(`^GET /docs/`)

var variable = regexp.MustCompile(`\{([^}=]+)(=[^}]*)?\}`)

// routesOf lists what a mux serves, as "GET /v1/capabilities/{capability_id}". It does not tell, so its fields are
// read.
func routesOf(mux *runtime.ServeMux) map[string]bool {
	all := map[string]bool{}
	for method, routes := range reflect.ValueOf(mux).Elem().FieldByName("handlers").Seq2() {
		for i := range routes.Len() {
			route := reflect.New(routes.Index(i).Type()).Elem()
			route.Set(reflect.NewAt(routes.Index(i).Type(), unsafe.Pointer(routes.Index(i).UnsafeAddr())).Elem())
			field := route.FieldByName("pat")
			readable := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
			pattern := readable.Interface().(runtime.Pattern)
			path := variable.ReplaceAllStringFunc(pattern.String(), func(v string) string {
				return strings.ReplaceAll(variable.ReplaceAllString(v, "{$1}"), ".", "_")
			})
			all[method.String()+" "+path] = true
		}
	}
	return all
}

// TestEveryRouteIsDescribed: every route that is served is described, and the reverse. A missing route belongs into
// openapi/base.yaml, or its proto into openapi/generate.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	conn, err := grpc.NewClient("passthrough:///nobody", grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	var mux *runtime.ServeMux
	extensions := []rest.Extension{enginerest.Routes, func(to *rest.Routes) error {
		mux = to.Mux
		return nil
	}}
	if _, err := rest.New(conn, rest.Config{Extensions: extensions, Page: http.NotFoundHandler()}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../openapi/routes.json")
	check.Must(t, err)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	check.Must(t, json.Unmarshal(text, &doc))
	served := routesOf(mux)
	for path, item := range doc.Paths {
		for method := range item {
			route := strings.ToUpper(method) + " " + path
			if !served[route] {
				t.Errorf("openapi/routes.json has %s, which is not served", route)
			}
			delete(served, route)
		}
	}
	for route := range served {
		if !undescribed.MatchString(route) {
			t.Errorf("openapi/routes.json has no %s", route)
		}
	}
}
