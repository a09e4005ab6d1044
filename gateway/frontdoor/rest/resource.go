package rest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/files"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/manifest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// resource serves the read of a resource: as JSON, or as its bytes if the client prefers them.
func (h *Handler) resource(w http.ResponseWriter, r *http.Request, params map[string]string) {
	w.Header().Add("Vary", "Accept")
	uri, err := uriOf(r)
	if err == nil {
		err = h.readResource(w, r, params["capability_id"], uri)
	}
	if err != nil {
		h.fail(w, r, hiding(err, unknownResource))
	}
}

// uriOf returns the URI in the query of a request.
func uriOf(r *http.Request) (uri string, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", badQuery("it is not a list of names and values")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case name != "uri" && name != files.Disposition:
			return "", badQuery(fmt.Sprintf("unknown parameter %.64q", name))
		case len(query[name]) > 1:
			return "", badQuery(fmt.Sprintf("%q is there twice", name))
		}
	}
	if uri = query.Get("uri"); uri == "" {
		return "", badQuery("it has no uri; the parameter uri is the URI of the resource")
	}
	if manifest.CheckURI(uri) != nil {
		return "", badQuery(fmt.Sprintf("uri must be the URI of a resource: with a scheme, without spaces, and at "+
			"most %d bytes", manifest.MaxURI))
	}
	return uri, nil
}

func (h *Handler) readResource(w http.ResponseWriter, r *http.Request, capability, uri string) error {
	args, err := plainjson.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return err
	}
	text, err := h.callFeature(w, r, &docpb.InvokeRequest{CapabilityId: capability, ToolName: manifest.ReadResource,
		ArgsJson: args})
	switch {
	case isUnknown(err):
		return unknownResource
	case err != nil:
		return err
	}
	ranges := accept.Ranges(r.Header, "Accept")
	whole := accept.Weigh(ranges, jsonType[0])
	if len(ranges) == 0 || !slices.ContainsFunc(ranges, func(r accept.Range) bool { return r.Weight > whole }) {
		h.writeFeature(w, text)
		return nil
	}
	if err := request.HoldResult(r.Context(), contentCopies*len(text)); err != nil {
		return err
	}
	c, err := contentOf(text)
	if err != nil {
		return err
	}
	switch typ := c.preferred(ranges, whole); {
	case typ != "":
		files.Describe(w.Header(), r, typ, uri)
		c.write(bodybudget.WriteTimeout(w, h.cfg.Stall))
	case whole > 0:
		h.writeFeature(w, text)
	default:
		return c.notAcceptable()
	}
	return nil
}

// notAcceptable returns the refusal of a client that accepts neither JSON nor the type of the content.
func (c *content) notAcceptable() *call.Refusal {
	text := "the resource does not have exactly one content: accept application/json, which has all of it"
	if c.typ != "" {
		text = fmt.Sprintf("the media type of the resource is %q: accept it, or application/octet-stream for the "+
			"same bytes, or application/json", untrusted.Clip(untrusted.Line(c.typ), maxNamedType))
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "NOT_ACCEPTABLE", Progress: call.Sent, Message: text}
}

// maxNamedType is the maximum length of a media type in an error, in bytes.
const maxNamedType = 100

// contentCopies is the number of copies of a resource while it is written as bytes, besides the message of the call.
const contentCopies = 2

// content is the content of a resource that has only one.
type content struct {
	typ  string // media type; empty means that the resource has another number of contents
	text string
	blob string // bytes in base64; empty means none
	size int    // bytes
}

// anyBytes is the media type of bytes of unknown type.
const anyBytes = "application/octet-stream"

// contentOf returns the content in the result of a read.
func contentOf(result []byte) (c content, err error) {
	var all struct {
		Contents []struct {
			MIME string  `json:"mimeType"`
			Text string  `json:"text"`
			Blob *string `json:"blob"`
		} `json:"contents"`
	}
	if err := strictjson.Unmarshal(result, &all); err != nil {
		return c, unreadableContent
	}
	if len(all.Contents) != 1 {
		return c, nil
	}
	of := all.Contents[0]
	if c.text, c.size = of.Text, len(of.Text); of.Blob == nil {
		c.typ = textType(of.MIME)
		return c, nil
	}
	c.typ, c.blob = cmp.Or(of.MIME, anyBytes), *of.Blob
	size, err := io.Copy(io.Discard, c.bytes())
	if c.size = int(size); err != nil {
		return c, unreadableContent
	}
	return c, nil
}

var unreadableContent = &call.Refusal{Kind: call.Internal, Reason: "UPSTREAM_ANSWER_INVALID", Progress: call.Sent,
	Message: "the bytes of the MCP server's resource are not valid base64"}

// textType returns the media type of a text. Texts of MCP are always in UTF-8.
func textType(said string) string {
	typ, params, err := mime.ParseMediaType(said)
	switch {
	case err != nil:
		return "text/plain; charset=utf-8"
	case !strings.HasPrefix(typ, "text/"):
		return said
	}
	params["charset"] = "utf-8"
	return mime.FormatMediaType(typ, params)
}

// preferred returns the media type in which a client prefers the content to JSON, which has the weight whole; empty
// means that it does not.
func (c *content) preferred(ranges []accept.Range, whole float64) string {
	kind, _, _ := strings.Cut(c.typ, ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); {
	case c.typ == "":
		return ""
	case kind != jsonType[0] && accept.Weigh(ranges, kind) > whole:
		return c.typ
	case accept.Weigh(ranges, anyBytes) > whole:
		return anyBytes
	}
	return ""
}

// bytes returns a reader of the content, which decodes it piece by piece.
func (c *content) bytes() io.Reader {
	if c.blob == "" {
		return strings.NewReader(c.text)
	}
	return base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(c.blob))
}

// write writes the content.
func (c *content) write(w http.ResponseWriter) {
	w.Header().Set("Content-Length", strconv.Itoa(c.size))
	_, _ = io.Copy(w, struct{ io.Reader }{c.bytes()}) // fails only if the client has disconnected
}
