// Package registry serves the toolsets and the capabilities of a caller as MCP servers, in the form of the MCP
// registry's API, which clients read to find servers. It is read-only.
//
//	registry.go  the door and its routes
//	server.go    an entry
package registry

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/toolset"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Path is the path of the list of servers.
const Path = "/v0.1/servers"

const (
	standardPage = 30  // servers per page
	maxPage      = 100 // servers per page
	maxReads     = 10  // pages of the catalog that a search reads for one response
	maxSearch    = 200 // bytes of a search, and of a name
)

// MCP is the MCP server of the gateway. *tools.Door implements it.
type MCP interface {
	// Served reports whether there is one.
	Served() bool
	// Base returns the URL of the gateway for a client, without a final slash.
	Base(*http.Request) string
	// Toolsets returns the names of the toolsets that the caller of a request may use, sorted. The error is a gRPC
	// status.
	Toolsets(*http.Request) ([]string, error)
}

// Door is the front door. It implements web.Door.
type Door struct {
	http.Handler
	catalog capgatepb.CatalogClient
	mcp     MCP
}

// New returns the front door. Its calls go through conn.
func New(conn grpc.ClientConnInterface, mcp MCP) *Door {
	d, mux := &Door{catalog: capgatepb.NewCatalogClient(conn), mcp: mcp}, http.NewServeMux()
	mux.HandleFunc("GET "+Path, d.list)
	mux.HandleFunc("GET "+Path+"/{name}/versions", d.versions) // the slash of a name is encoded
	mux.HandleFunc("GET "+Path+"/{name}/versions/{version}", d.version)
	mux.HandleFunc("GET "+Path+"/{rest...}", noServer)
	d.Handler = problem.Mux(mux, nil)
	return d
}

// Match implements web.Door.
func (d *Door) Match(r *http.Request) bool {
	return d.mcp.Served() && (r.URL.Path == Path || strings.HasPrefix(r.URL.Path, Path+"/"))
}

// Protocol implements web.Door.
func (*Door) Protocol(*http.Request) call.Protocol { return call.JSON }

// Headers implements web.Door.
func (*Door) Headers() header.Door { return header.Door{} }

// Timeout implements web.Door.
func (*Door) Timeout(*http.Request) (time.Duration, bool) { return 0, false }

// list serves a page of the servers.
func (d *Door) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := limitOf(query.Get("limit"))
	search := strings.ToLower(query.Get("search"))
	if err != nil || len(search) > maxSearch {
		problem.Write(w, r, invalid("limit is a number from 1 to 100, and search a text of at most 200 bytes"))
		return
	}
	sets, err := d.mcp.Toolsets(r)
	if err != nil {
		problem.Write(w, r, problem.Of(err))
		return
	}
	wanted := func(e *entry) bool {
		return e.is(query.Get("version")) && strings.Contains(strings.ToLower(e.Server.Name), search)
	}
	answer, next := listed{Servers: []entry{}}, query.Get("cursor")
	after, among := strings.CutPrefix(next, toolsetPrefix)
	if among && !toolset.IsName(after) {
		problem.Write(w, r, wrongCursor())
		return
	}
	if among || next == "" {
		answer.Servers, next = d.toolsets(r, sets, after, limit, wanted), ""
		if n := len(answer.Servers); n == limit { // further toolsets, or the capabilities, follow
			next = answer.Servers[n-1].id()
		}
	}
	for reads := 0; reads < maxReads && len(answer.Servers) < limit; reads++ {
		page, err := d.catalog.ListCapabilities(r.Context(), &capgatepb.ListCapabilitiesRequest{
			PageSize: int32(limit - len(answer.Servers)), PageToken: next}) //nolint:gosec // at most maxPage
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		for _, c := range page.GetCapabilities() {
			if e := d.entryOf(r, c); wanted(&e) {
				answer.Servers = append(answer.Servers, e)
			}
		}
		if next = page.GetNextPageToken(); next == "" {
			break
		}
	}
	answer.Metadata = metadata{len(answer.Servers), next}
	write(w, r, answer)
}

// limitOf returns the maximum number of servers of a page.
func limitOf(text string) (int, error) {
	n, err := strconv.Atoi(cmp.Or(text, strconv.Itoa(standardPage)))
	if err == nil && (n < 1 || n > maxPage) {
		err = strconv.ErrRange
	}
	return n, err
}

// refuse responds with the error of a list.
func (*Door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if status.InfoOf(err).GetReason() == listInvalid {
		problem.Write(w, r, wrongCursor())
		return
	}
	problem.Write(w, r, problem.Of(err))
}

// listInvalid is the reason of an invalid field of a list.
const listInvalid = "LIST_INVALID"

func invalid(detail string) problem.Problem {
	return problem.Own(http.StatusBadRequest, codes.InvalidArgument, listInvalid, detail)
}

// wrongCursor returns the problem of a list that begins after no server.
func wrongCursor() problem.Problem { return invalid("cursor was not issued by this server") }

// versions serves the versions of a server, of which there is one.
func (d *Door) versions(w http.ResponseWriter, r *http.Request) {
	if e, ok := d.find(w, r); ok {
		write(w, r, listed{[]entry{e}, metadata{Count: 1}})
	}
}

// version serves a version of a server.
func (d *Door) version(w http.ResponseWriter, r *http.Request) {
	e, ok := d.find(w, r)
	switch {
	case !ok:
	case !e.is(r.PathValue("version")):
		problem.Write(w, r, problem.NoSuchPath())
	default:
		write(w, r, e)
	}
}

// find returns the server that the path names, or responds with a problem.
func (d *Door) find(w http.ResponseWriter, r *http.Request) (e entry, ok bool) {
	namespace, id, _ := strings.Cut(r.PathValue("name"), "/")
	if len(id) > maxSearch || namespace != namespaceOf(d.mcp.Base(r)) || id == "" {
		noServer(w, r)
		return e, false
	}
	if set, is := strings.CutPrefix(id, toolsetPrefix); is {
		return d.findToolset(w, r, set)
	}
	found, err := d.catalog.GetCapability(r.Context(), &capgatepb.GetCapabilityRequest{CapabilityId: id})
	if err != nil {
		problem.Write(w, r, problem.Of(err))
		return e, false
	}
	return d.entryOf(r, found.GetCapability()), true
}

// noServer responds to a path that names no server.
func noServer(w http.ResponseWriter, r *http.Request) {
	p := problem.NoSuchPath()
	p.Detail = "there is no server with this name; GET " + Path + " lists the names. In the path " + Path +
		"/NAME/versions, encode the slash of the name as %2F"
	problem.Write(w, r, p)
}

// write responds with JSON, which depends on the caller.
func write(w http.ResponseWriter, r *http.Request, of any) {
	text, err := plainjson.Marshal(of)
	if err != nil {
		problem.Write(w, r, problem.Of(err))
		return
	}
	text = append(text, '\n')
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "private, no-cache")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // an error means that the client has disconnected
	}
}

var _ web.Door = (*Door)(nil)
