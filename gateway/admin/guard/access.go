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

// Access is what a route or a method demands of an operator.
type Access struct {
	Role operator.Roles // least role; 0 means the route is open, and asks nobody
	All  bool           // the roles must be for all tenants, because the route names none
	// Closed is a parameter of the query with which an open route needs the role viewer for all tenants.
	Closed string
	// Metrics: the route is open if Config.OpenMetrics is true.
	Metrics bool
	// Page: browsers get the route before the sign-in, too. It is a page that is the same for everybody, and whose
	// script knows the part of the address behind #, to which the sign-in then leads back.
	Page bool
}

// Rows of the table.
var (
	open    = Access{}
	view    = Access{Role: operator.View}
	viewAll = Access{Role: operator.View, All: true}
)

// routes has the rows of what is no method of a service in proto/capgate: pages, files, probes, the sign-in, and
// reflection. Methods have the option capgate.v1.access.
var routes = map[string]Access{
	"GET /livez":                open,
	"GET /readyz":               {Closed: "verbose"}, // its handler names fleets to operators alone
	"GET /docs/errors":          open,
	"GET /docs":                 view,
	"GET /docs/*":               view,
	"GET /openapi.json":         view,
	"GET /openapi.yaml":         view,
	"GET /metrics":              {Role: operator.View, All: true, Metrics: true},
	"GET /{$}":                  {Role: operator.View, Page: true},
	"GET /console/":             open, // the page's parts, which are public
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

	// Reflection tells what the API is, and nothing of this gateway.
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      view,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": view,
}

// AccessOf returns what a route demands, by its pattern, or a method, by its path. A row that ends in * is that of all
// files in a directory without a row of their own.
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

// roles are the roles of the option capgate.v1.access.
var roles = map[capgatepb.Role]operator.Roles{
	capgatepb.Role_ROLE_VIEWER: operator.View, capgatepb.Role_ROLE_OPERATOR: operator.Operate,
	capgatepb.Role_ROLE_APPROVER: operator.Approve, capgatepb.Role_ROLE_ADMIN: operator.Admin,
}

// ofMethod returns what the option of a method demands; false: it has none.
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

// of returns the row that applies to a request.
func (a Access) of(r *http.Request, openMetrics bool) Access {
	switch {
	case a.Closed != "" && r.URL.Query().Has(a.Closed):
		return viewAll
	case a.Metrics && openMetrics:
		return open
	}
	return a
}

// check returns the operator with the tenants for which it has the role, or a refusal if there are none.
func (a Access) check(who *operator.Identity) (*operator.Identity, *call.Refusal) {
	switch {
	case a.Role == 0:
		return who, nil
	case who == nil:
		return nil, refusedUnknown
	}
	switch who = who.For(a.Role); {
	case who.Any() == 0:
		return nil, &call.Refusal{Kind: call.PermissionDenied, Reason: "ROLE_MISSING",
			Metadata: map[string]string{"role": a.Role.String()},
			Message:  "this needs the role " + a.Role.String() + ", which the credential does not have here"}
	case a.All && who.Roles == 0:
		return nil, who.RefusedTenant()
	}
	return who, nil
}

var refusedUnknown = &call.Refusal{Kind: call.Unauthenticated, Reason: "OPERATOR_UNKNOWN",
	Message: "the admin API needs an operator's credential: send an API key or a token with a role as header or " +
		"metadata authorization, Bearer and the key"}
