package rest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/mcpclients"
	"github.com/capgate/capgate/openapi"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const listed = 200 // page size of capabilities: the maximum

// documents serves a caller's OpenAPI document. Each request lists the catalog with the caller's credentials; the
// document is written only if its content is not cached.
type documents struct {
	catalog capgatepb.CatalogClient
	write   *openapi.Documents
	open    *openapi.Documents // for callers that need no credential
	kept    kept
	pace    *pace
	owner   func(*http.Request) string // Config.Owner
}

// routeDocuments adds the OpenAPI documents, and the page /docs with its files.
func (h *Handler) routeDocuments(conn grpc.ClientConnInterface) error {
	write, err := openapi.New()
	if err != nil {
		return err
	}
	d := &documents{catalog: capgatepb.NewCatalogClient(conn), write: write,
		open: write.WithoutKeys(), pace: newPace(), owner: h.cfg.Owner}
	for path, form := range map[string]string{"/openapi.json": "application/json",
		"/openapi.yaml": "application/yaml"} {
		err = errors.Join(err, h.mux.HandlePath(http.MethodGet, path,
			func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
				w = bodybudget.WriteTimeout(w, h.cfg.Stall)
				if err := d.answer(outgoing(r), w, r, form); err != nil {
					WriteProblem(w, r, err)
				}
			}))
	}
	for path, page := range map[string]http.Handler{"/docs": h.cfg.Page, "/docs/assets/{file}": h.cfg.Page,
		mcpclients.Path: http.HandlerFunc(mcpclients.Serve)} {
		if page == nil {
			continue
		}
		err = errors.Join(err, h.mux.HandlePath(http.MethodGet, path,
			func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
				page.ServeHTTP(bodybudget.WriteTimeout(w, h.cfg.Stall), r)
			}))
	}
	return err
}

func (d *documents) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, form string) error {
	keyed := r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != ""
	end, err := d.pace.begin(ctx, d.owner(r))
	if err != nil {
		return err
	}
	text, tag, tools, err := d.document(ctx, r.URL.Query().Get("capability"), form, keyed)
	if end(tools); err != nil {
		return err
	}
	head := w.Header()
	head.Set("Content-Type", form)
	head.Set("ETag", tag)
	head.Set("Cache-Control", "private, no-cache")
	_, _ = w.Write(text) // the client may have disconnected
	return nil
}

// document returns the document of the caller of ctx, its ETag, and the number of listed tools. The document for a
// caller without a required credential does not require one either.
func (d *documents) document(ctx context.Context, only, form string, keyed bool) (text []byte, tag string, tools int,
	err error) {
	g := &gathering{catalog: d.catalog, room: openapi.MaxBytes}
	err = g.gather(ctx, only)
	if err != nil && !noCredential(err) {
		return nil, "", g.listed(), err
	}
	write := d.open
	if keyed || err != nil {
		write = d.write
	}
	tag = g.tag(write.Version(), form)
	if text, ok := d.kept.get(tag); ok {
		return text, tag, g.listed(), nil
	}
	if text, err = write.Write(g.capabilities(), g.more); err == nil && form == "application/yaml" {
		text, err = openapi.YAML(text)
	}
	if err != nil {
		return nil, "", g.listed(), grpcstatus.Error(codes.Internal, "the document cannot be written")
	}
	d.kept.put(tag, text)
	return text, tag, g.listed(), nil
}

// noCredential reports whether a caller was rejected because it sent no credential. The fixed routes are public.
func noCredential(err error) bool { return status.InfoOf(err).GetReason() == "CREDENTIAL_MISSING" }

// gathering collects the tools that a caller may use.
type gathering struct {
	catalog capgatepb.CatalogClient
	lists   []listOf
	tags    []string // etags of the lists
	room    int      // remaining bytes
	more    bool     // some tools had no room
}

// listOf is the list of a capability's tools.
type listOf struct {
	capability string
	tools      []*capgatepb.Tool
}

func (g *gathering) gather(ctx context.Context, only string) error {
	if only != "" {
		return g.add(ctx, only)
	}
	req := &capgatepb.ListCapabilitiesRequest{PageSize: listed}
	for {
		page, err := g.catalog.ListCapabilities(ctx, req)
		if err != nil {
			return err
		}
		for _, c := range page.GetCapabilities() {
			if !c.GetToolsKnown() {
				continue
			}
			// It may have been removed since.
			if err := g.add(ctx, c.GetId()); err != nil && grpcstatus.Code(err) != codes.NotFound {
				return err
			}
			if g.room < 0 {
				return nil
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return nil
		}
	}
}

func (g *gathering) add(ctx context.Context, id string) error {
	list, err := g.catalog.ListTools(ctx, &capgatepb.ListToolsRequest{CapabilityId: id})
	switch {
	case status.InfoOf(err).GetReason() == "MESSAGE_TOO_LARGE": // the list would have no room anyway
		g.more = true
		return nil
	case err != nil:
		return err
	}
	if g.room -= proto.Size(list); g.room < 0 {
		g.more = true
	}
	g.lists, g.tags = append(g.lists, listOf{id, list.GetTools()}), append(g.tags, list.GetEtag())
	return nil
}

// listed returns the number of listed tools.
func (g *gathering) listed() (n int) {
	for _, list := range g.lists {
		n += 1 + len(list.tools)
	}
	return n
}

// capabilities returns the listed tools for the document.
func (g *gathering) capabilities() (all []openapi.Capability) {
	for _, list := range g.lists {
		c := openapi.Capability{ID: list.capability}
		for _, t := range list.tools {
			c.Tools = append(c.Tools, openapi.Tool{Name: t.GetName(), Description: t.GetDescription(),
				Schema: t.GetInputSchema().AsMap(),
				Policy: t.GetPolicy(), Terminal: t.GetTerminalOnSuccess()})
		}
		all = append(all, c)
	}
	return all
}

// tag returns the ETag of the document of the listed tools.
func (g *gathering) tag(version, form string) string {
	var all strings.Builder
	fmt.Fprintln(&all, version, form, g.more)
	for i, list := range g.lists {
		fmt.Fprintf(&all, "%q %q\n", list.capability, g.tags[i])
	}
	sum := sha256.Sum256([]byte(all.String()))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}
