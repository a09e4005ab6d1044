package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// The two routes that invoke a tool bypass the mux and the generated code, which together cost more than the call.
// Less common requests (with a stream, a query, an encoding, a key, …) are left to the mux: direct then returns false
// and has neither read nor written anything.

const (
	capabilitiesPath = "/v1/capabilities/"
	invokeSuffix     = "/invoke"
	toolsPath        = "/tools/"
)

// directCall is a tool call that bypasses the mux. Its memory is reused.
type directCall struct {
	unary.Call
	capability, tool string // tool is from the path; empty means the body names it
}

//nolint:gochecknoglobals // memory, shared by all calls
var directCalls = sync.Pool{New: func() any { return new(directCall) }}

// direct serves a common request of the two routes. It returns false for others.
func (h *Handler) direct(w http.ResponseWriter, r *http.Request) bool {
	if h.cfg.Unary == nil || r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, capabilitiesPath) {
		return false
	}
	d := directCalls.Get().(*directCall)
	defer d.release()
	if !d.route(r) || !d.readHeader(r.Header) {
		return false
	}
	addVary(w.Header())
	err := d.readBody(w, r, h)
	if err == nil {
		err = d.encode(r.Header)
	}
	if err != nil {
		h.fail(w, r, err)
		return true
	}
	h.invoke(w, r, d)
	return true
}

// release clears the call and returns its memory to the pool.
func (d *directCall) release() {
	d.Clear()
	d.capability, d.tool = "", ""
	directCalls.Put(d)
}

// route parses the path. Names with an escape are left to the mux.
func (d *directCall) route(r *http.Request) bool {
	if r.URL.RawPath != "" || r.URL.RawQuery != "" || r.ContentLength <= 0 || r.ContentLength > unary.MaxBody {
		return false
	}
	var rest string
	var found bool
	d.capability, rest, found = strings.Cut(r.URL.Path[len(capabilitiesPath):], "/")
	if !found || d.capability == "" || !header.IsASCII(d.capability) {
		return false
	}
	if rest == invokeSuffix[1:] {
		d.tool = ""
		return true
	}
	d.tool, found = strings.CutPrefix(rest, toolsPath[1:])
	return found && d.tool != "" && !strings.Contains(d.tool, "/") && header.IsASCII(d.tool)
}

// readHeader collects the metadata of a request with common headers only.
func (d *directCall) readHeader(all http.Header) bool {
	for name, values := range all {
		if len(values) != 1 || !header.IsASCII(values[0]) {
			return false
		}
		v := values[0]
		switch name {
		case "Content-Type":
			if v != "application/json" && v != "application/x-www-form-urlencoded" { // the type that curl -d sends
				return false
			}
		case "Accept":
			if v != "*/*" && v != "application/json" {
				return false
			}
		case "X-Api-Key":
			if call.IsCredential(v) {
				d.Add(apiKey, v)
			}
		case "Authorization":
			d.Add(authorization, v)
		default:
			f := header.Lookup(name)
			if !f.Has(header.Ordinary) {
				return false
			}
			if f.Has(header.ToCall) {
				d.Add(f.Metadata, v)
			}
		}
	}
	return true
}

// readBody reads the whole body, which is charged to its tenant meanwhile.
func (d *directCall) readBody(w http.ResponseWriter, r *http.Request, h *Handler) error {
	if r.ContentLength > h.cfg.MaxBody {
		return tooLarge(h.cfg.MaxBody)
	}
	in := bodybudget.FromContext(r.Context()).Reader(bodybudget.StallTimeout(w, r.Body, h.cfg.Stall), r.ContentLength)
	if err := d.Read(in, int(r.ContentLength)); err != nil {
		return unread(err)
	}
	return nil
}

// encode encodes the JSON in body as a message, after relay.Headroom. The error is a *call.Refusal.
func (d *directCall) encode(header http.Header) (err error) {
	reader := strictjson.Get()
	defer reader.Release()
	var c invocation.Call
	if d.tool == "" {
		c, err = invocation.Read(reader, d.Body, d.capability)
	} else {
		c = invocation.Call{Tool: []byte(d.tool), Config: invocation.EmptyObject,
			Session: []byte(header.Get("X-Session-Id")), Thread: []byte(header.Get(threadID))}
		c.Args, err = invocation.Arguments(d.Body, bodyOfCall, invocation.InvalidBody)
	}
	if err != nil {
		return err
	}
	d.Message = unary.AppendCall(d.Begin(), c.Tool, c.Args, c.Config, c.Session, d.capability, c.Thread)
	return nil
}

// invoke makes the call and writes the response.
func (h *Handler) invoke(w http.ResponseWriter, r *http.Request, d *directCall) {
	problem.Called(r.Context())
	d.Request = relay.Request{Path: docpb.Capability_Invoke_FullMethodName, Authority: localgrpc.DefaultAuthority,
		Header: d.Header, MaxMessage: MaxReply}
	h.cfg.Unary(r.Context(), &d.Request, d.Message, &d.Response)
	if r.Context().Err() != nil {
		return // the client has disconnected
	}
	result, toolError, err := localgrpc.Result(&d.Response)
	if err == nil && toolError != "" && h.cfg.ToolErrors == HTTPErrors {
		err = toolFailure{result, toolError}
	}
	if err == nil {
		err = d.answer(r.Context(), w, result, toolError)
	}
	if err != nil {
		h.fail(w, r, err)
	}
}

// Common header values.
//
//nolint:gochecknoglobals // constants
var (
	varyAccept   = []string{"Accept"}
	varyBoth     = []string{"Accept", "Accept-Encoding"}
	jsonType     = []string{"application/json"}
	wasToolError = []string{"tool_error"}
	wasSuccess   = []string{"success"}
)

// addVary declares that the response depends on the Accept headers.
func addVary(head http.Header) {
	if len(head["Vary"]) == 0 {
		head["Vary"] = varyAccept
		return
	}
	head.Add("Vary", varyAccept[0])
}

// varyEncoding declares that the response depends on the Accept-Encoding headers.
func varyEncoding(head http.Header) {
	if v := head["Vary"]; len(v) == 1 && v[0] == varyAccept[0] {
		head["Vary"] = varyBoth
		return
	}
	head.Add("Vary", varyBoth[1])
}

// answer writes the result in the form of the route.
func (d *directCall) answer(ctx context.Context, w http.ResponseWriter, result []byte, toolError string) error {
	typ, text := jsonType, result
	if d.tool == "" || toolError != "" {
		clear(d.Body) // no longer needed
		err := request.HoldResult(ctx, len(result)/2*3)
		if err != nil {
			return err
		}
		if d.Body, err = appendInvoke(d.Body[:0], result, toolError); err != nil {
			return err
		}
		text = d.Body
	} else if t := typeOf(result); t != typ[0] {
		typ = []string{t}
	}
	head := w.Header()
	head["X-Capgate-Outcome"] = wasSuccess
	if toolError != "" {
		head["X-Capgate-Outcome"] = wasToolError
	}
	if len(text) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	head["Content-Type"], head["Content-Length"] = typ, []string{strconv.Itoa(len(text))}
	_, _ = w.Write(text) // fails only if the client has disconnected
	return nil
}

// typeOf returns the media type of a result.
func typeOf(result []byte) string {
	switch {
	case isText(result):
		return "application/json"
	case utf8.Valid(result) && bytes.IndexByte(result, 0) < 0:
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// appendInvoke appends a result and an error as a capgate.v1.InvokeResponse in JSON to an empty slice. The result is
// written as JSON, or as base64 if it is not JSON.
func appendInvoke(out, result []byte, toolError string) ([]byte, error) {
	out = append(out, '{')
	switch {
	case len(result) == 0:
	case isText(result):
		out = append(append(out, `"result":`...), bytes.Trim(result, " \t\r\n")...)
	default:
		out = base64.StdEncoding.AppendEncode(append(out, `"result_json":"`...), result)
		out = append(out, '"')
	}
	if toolError != "" {
		if len(out) > 1 {
			out = append(out, ',')
		}
		text, err := plainjson.Marshal(toolError)
		if err != nil {
			return nil, fmt.Errorf("encode the tool's error: %w", err)
		}
		out = append(append(out, `"error":`...), text...)
	}
	return append(out, "}\n"...), nil
}
