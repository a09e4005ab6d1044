package guard

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Access is the access requirement of a route or a method.
type Access struct {
	Role operator.Roles // minimum role; 0 means open, without a credential
	All  bool           // the roles must be for all tenants, because the route names none
	// Closed is a query parameter with which an open route requires the role viewer for all tenants.
	Closed string
	// Metrics opens the route if Config.OpenMetrics is true.
	Metrics bool
	// Page opens the route to browsers before the sign-in. The page must be the same for all clients. Its script knows
	// the fragment of the URL, to which the sign-in then returns.
	Page bool
}

// Common rows.
var (
	open    = Access{}
	view    = Access{Role: operator.View}
	viewAll = Access{Role: operator.View, All: true}
)

// routes holds the access of routes that are not methods of a service in proto/capgate: pages, files, probes, the
// sign-in, and reflection. Methods have the option capgate.v1.access.
var routes = map[string]Access{
	"GET /livez":                open,
	"GET /readyz":               {Closed: "verbose"}, // its handler names fleets only to operators
	"GET /docs/errors":          open,
	"GET /docs":                 view,
	"GET /docs/*":               view,
	"GET /openapi.json":         view,
	"GET /openapi.yaml":         view,
	"GET /metrics":              {Role: operator.View, All: true, Metrics: true},
	"GET /{$}":                  {Role: operator.View, Page: true},
	"GET /console/":             open, // static files, which are public
	"GET /signin":               open,
	"GET /signin/style.css":     open,
	"GET /signin/oidc/{issuer}": open,
	"GET /signin/callback":      open,
	"POST /signin/key":          open,
	"GET /cli":                  open, // they check the session, the code or the credential
	"POST /cli":                 open,
	"POST /cli/token":           open,
	"POST /cli/end":             open,
	"POST /signout":             open,
	"GET /debug/pprof/":         viewAll,
	"GET /debug/pprof/cmdline":  viewAll,
	"GET /debug/pprof/profile":  viewAll,
	"GET /debug/pprof/symbol":   viewAll,
	"POST /debug/pprof/symbol":  viewAll,
	"GET /debug/pprof/trace":    viewAll,

	// Reflection describes the API, and reveals nothing about this gateway.
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      view,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": view,
}

// AccessOf returns the access of a route by its pattern, or of a method by its path. A row that ends in * applies to
// all files in a directory without their own row.
func AccessOf(route string) (Access, bool) {
	a, ok := routes[route]
	switch {
	case ok:
	case strings.HasPrefix(route, "/"):
		return ofMethod(route)
	case strings.HasPrefix(route, http.MethodGet+" "):
		a, ok = routes[route[:strings.LastIndexByte(route, '/')+1]+"*"]
	}
	return a, ok
}

// roles maps the roles of the option capgate.v1.access.
var roles = map[capgatepb.Role]operator.Roles{
	capgatepb.Role_ROLE_VIEWER: operator.View, capgatepb.Role_ROLE_OPERATOR: operator.Operate,
	capgatepb.Role_ROLE_APPROVER: operator.Approve, capgatepb.Role_ROLE_ADMIN: operator.Admin,
}

// ofMethod returns the access option of a method, and whether it has one.
func ofMethod(path string) (Access, bool) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."))
	d, _ := protoregistry.GlobalFiles.FindDescriptorByName(name)
	method, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return Access{}, false
	}
	option, _ := proto.GetExtension(method.Options(), capgatepb.E_Access).(*capgatepb.Access)
	role := roles[option.GetRole()]
	return Access{Role: role, All: option.GetAllTenants()}, role != 0
}

// of returns the requirement for a request.
func (a Access) of(r *http.Request, openMetrics bool) Access {
	switch {
	case a.Closed != "" && r.URL.Query().Has(a.Closed):
		return viewAll
	case a.Metrics && openMetrics:
		return open
	}
	return a
}

// check returns the operator, restricted to the tenants for which it has the role. If it has the role for no tenant,
// check returns a refusal.
func (a Access) check(identity *operator.Identity) (*operator.Identity, *call.Refusal) {
	switch {
	case a.Role == 0:
		return identity, nil
	case identity == nil:
		return nil, refusedUnknown
	}
	switch identity = identity.For(a.Role); {
	case identity.Any() == 0:
		return nil, &call.Refusal{Kind: call.PermissionDenied, Reason: "ROLE_MISSING",
			Metadata: map[string]string{"role": a.Role.String()},
			Message:  "this needs the role " + a.Role.String() + ", which the credential does not have here"}
	case a.All && identity.Roles == 0:
		return nil, identity.RefusedTenant()
	}
	return identity, nil
}

var refusedUnknown = &call.Refusal{Kind: call.Unauthenticated, Reason: "OPERATOR_UNKNOWN",
	Message: "the admin API requires an operator's credential: send an API key or a token with a role in the " +
		"header or metadata authorization, after Bearer and a space"}
