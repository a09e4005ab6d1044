package registry

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// schema is the schema of a server.
const schema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// onlyVersion is the version of each server: capabilities have none, and the schema requires one.
const onlyVersion = "1.0.0"

// latest is the name of the newest version.
const latest = "latest"

// maxText is the maximum length of a title or a description, in bytes and without an ellipsis.
const maxText = 97

// listed is a list of servers.
type listed struct {
	Servers  []entry  `json:"servers"`
	Metadata metadata `json:"metadata"`
}

// metadata describes a page.
type metadata struct {
	Count int    `json:"count"`
	Next  string `json:"nextCursor,omitempty"`
}

// entry is a server with the metadata of the registry.
type entry struct {
	Server server                  `json:"server"`
	Meta   map[string]registration `json:"_meta"`
}

// registration is the state of a server in the registry.
type registration struct {
	Status string `json:"status"`
	Latest bool   `json:"isLatest"`
}

// server describes a server.
type server struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Version     string   `json:"version"`
	Remotes     []remote `json:"remotes"`
}

// remote is an address of a server.
type remote struct {
	Type    string  `json:"type"`
	URL     string  `json:"url"`
	Headers []input `json:"headers,omitempty"`
}

// input is a value that a client requests from its user.
type input struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"isRequired"`
	Secret      bool   `json:"isSecret"`
}

// is reports whether an entry has a version; empty means any.
func (e *entry) is(version string) bool {
	return version == "" || version == latest || version == onlyVersion
}

// entryOf returns a capability as a server. The tools of all capabilities are at one URL.
func (d *Door) entryOf(r *http.Request, c *capgatepb.Capability) entry {
	description := "Tools: " + strings.Join(c.GetTools(), ", ")
	if len(c.GetTools()) == 0 {
		description = "Tools that cannot be listed yet"
	}
	return d.newEntry(r, c.GetId(), c.GetId(), description, mcp.Path)
}

// newEntry returns an entry with a remote at a path. A caller with an API key needs it there as well.
func (d *Door) newEntry(r *http.Request, id, title, description, path string) entry {
	base := d.mcp.Base(r)
	at := remote{Type: "streamable-http", URL: base + path}
	if tenant.IsKeyID(web.Of(r).Identity.Key) {
		at.Headers = []input{{"Authorization", "Bearer, a space, and an API key of the gateway", true, true}}
	}
	return entry{server{schema, namespaceOf(base) + "/" + id, untrusted.Clip(title, maxText),
		untrusted.Clip(description, maxText), onlyVersion, []remote{at}},
		map[string]registration{"io.modelcontextprotocol.registry/official": {"active", true}}}
}

// toolsetPrefix is the beginning of the id of a toolset, which no capability has in its id, and of the cursor after it.
const toolsetPrefix = "toolset."

// toolset returns a toolset as a server, at its own URL.
func (d *Door) toolset(r *http.Request, name string) entry {
	return d.newEntry(r, toolsetPrefix+name, name, "The tools of the toolset "+name, mcp.Path+"/"+name)
}

// toolsets returns at most limit of the toolsets after one, that are wanted.
func (d *Door) toolsets(r *http.Request, names []string, after string, limit int, wanted func(*entry) bool) []entry {
	all := []entry{}
	for _, name := range names {
		if e := d.toolset(r, name); name > after && len(all) < limit && wanted(&e) {
			all = append(all, e)
		}
	}
	return all
}

// findToolset returns a toolset of the caller, or responds with a problem.
func (d *Door) findToolset(w http.ResponseWriter, r *http.Request, name string) (e entry, ok bool) {
	names, err := d.mcp.Toolsets(r)
	switch {
	case err != nil:
		problem.Write(w, r, problem.Of(err))
	case !slices.Contains(names, name):
		noServer(w, r)
	default:
		return d.toolset(r, name), true
	}
	return e, false
}

// id returns the name of a server without its namespace.
func (e *entry) id() string {
	_, id, _ := strings.Cut(e.Server.Name, "/")
	return id
}

// namespaceOf returns the host of a URL with its labels in reverse order, as names of servers have it.
func namespaceOf(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return "capgate"
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if at, err := netip.ParseAddr(host); err == nil {
		if at.Is4() {
			return host
		}
		return strings.NewReplacer(":", "-", "%", "-").Replace("ip6-" + at.String())
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
