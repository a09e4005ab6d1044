package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// meta is the used part of a request's _meta.
type meta struct {
	texts       []relay.Field   // strings about a call, by key
	revision    string          // of the request
	hasRevision bool            // a revision is present, possibly not a string
	progress    bool            // the client requests progress notifications
	token       any             // token of these: a string, or the JSON of a number; nil means invalid
	tasks       bool            // the client accepts tasks as results
	level       questions.Level // least level of log messages that the client wants; 0 means none
	wrongLevel  bool            // a level is present, and not one of MCP
	shows                       // what the client can show to its user
	plain       bool            // the SDK accepts the client's info and capabilities, and they are complete
}

// shows is what a client can show to its user.
type shows struct {
	URLs  bool `json:"u,omitempty"` // URLs (URL elicitation)
	Forms bool `json:"f,omitempty"` // forms (form elicitation)

	Sampling bool `json:"s,omitempty"` // samples of its model, which it may show before
	Roots    bool `json:"r,omitempty"` // its roots
	Apps     bool `json:"a,omitempty"` // apps of servers
}

// kinds returns the questions of servers that the client answers.
func (s shows) kinds() (all questions.Kinds) {
	if s.Forms {
		all |= questions.Forms
	}
	if s.URLs {
		all |= questions.URLs
	}
	if s.Sampling {
		all |= questions.Sampling
	}
	if s.Roots {
		all |= questions.Roots
	}
	return all
}

// text returns the string under a key, or other.
func (m *meta) text(key, other string) string {
	for i := range m.texts {
		if m.texts[i].Name == key {
			return m.texts[i].Value
		}
	}
	return other
}

// read parses an object. revision is the one in the header of the request.
func (m *meta) read(object strictjson.Value, revision string) {
	described, plain := false, true
	for name, v := range object.Members() {
		switch string(name.Bytes()) {
		case metaIdempotency, metaSession, metaThread, "traceparent", "tracestate", "baggage":
			if v.Kind() == strictjson.String {
				m.texts = append(m.texts, relay.Field{Name: string(name.Bytes()), Value: string(v.Bytes())})
			}
		case "progressToken":
			m.progress, m.token = true, tokenOf(v)
		case sdk.MetaKeyLogLevel: //nolint:staticcheck // deprecated, and still a part of the protocol
			if v.Kind() == strictjson.String {
				m.level = questions.LevelOf(string(v.Bytes()))
			}
			m.wrongLevel = m.level == 0
		case sdk.MetaKeyProtocolVersion:
			m.hasRevision = true
			if v.Kind() == strictjson.String {
				if m.revision = revision; string(v.Bytes()) != revision {
					m.revision = string(v.Bytes())
				}
			}
		case sdk.MetaKeyClientInfo:
			plain = plain && isPlainInfo(v)
		case sdk.MetaKeyClientCapabilities:
			described = isPlainCapabilities(v)
			m.readCapabilities(v)
		}
	}
	m.plain = described && plain
}

// tokenOf returns a progress token. A number keeps its digits.
func tokenOf(v strictjson.Value) any {
	switch v.Kind() {
	case strictjson.String:
		return string(v.Bytes())
	case strictjson.Number:
		return json.RawMessage(bytes.Clone(v.Bytes()))
	}
	return nil
}

// readCapabilities parses the capabilities that a client declares.
func (m *meta) readCapabilities(capabilities strictjson.Value) {
	if capabilities.Kind() != strictjson.Object {
		return
	}
	if extensions, ok := capabilities.Get("extensions"); ok && extensions.Kind() == strictjson.Object {
		_, m.tasks = extensions.Get(tasksExtension)
		m.Apps = showsApps(extensions)
	}
	if elicitation, ok := capabilities.Get("elicitation"); ok {
		shown := showsOf(elicitation)
		m.URLs, m.Forms = shown.URLs, shown.Forms
	}
	m.Sampling, m.Roots = hasObject(capabilities, "sampling"), hasObject(capabilities, "roots")
}

// hasObject reports whether a member is an object.
func hasObject(of strictjson.Value, name string) bool {
	v, ok := of.Get(name)
	return ok && v.Kind() == strictjson.Object
}

// showsOf parses the capability elicitation. Without a mode it means forms (2026-07-28, Elicitation, "Capabilities").
func showsOf(elicitation strictjson.Value) shows {
	if elicitation.Kind() != strictjson.Object {
		return shows{}
	}
	form, hasForm := elicitation.Get("form")
	url, hasURL := elicitation.Get("url")
	hasForm, hasURL = hasForm && form.Kind() == strictjson.Object, hasURL && url.Kind() == strictjson.Object
	return shows{URLs: hasURL, Forms: hasForm || !hasURL}
}

// isPlain reports whether the SDK would accept a call, in its revision.
func (m *message) isPlain(header http.Header) bool {
	if m.meta.progress {
		return false
	}
	if !m.isStateless() {
		return !m.meta.hasRevision
	}
	named := m.tool == "" && header["Mcp-Name"] == nil || isOnly(header, "Mcp-Name", m.tool)
	return m.meta.revision == m.version && isOnly(header, "Mcp-Protocol-Version", m.version) &&
		isOnly(header, "Mcp-Method", m.method) && named && m.meta.plain
}

// isOnly reports whether a header with a canonical name is present once, with a value.
func isOnly(header http.Header, name, value string) bool {
	values := header[name]
	return len(values) == 1 && values[0] == value
}

// isPlainInfo reports whether the SDK accepts a client's info.
func isPlainInfo(info strictjson.Value) bool {
	if info.Kind() != strictjson.Object {
		return false
	}
	for name, v := range info.Members() {
		switch string(name.Bytes()) {
		case "name", "version", "title":
		default:
			return false
		}
		if v.Kind() != strictjson.String {
			return false
		}
	}
	return true
}

// isPlainCapabilities reports whether the SDK accepts a client's capabilities.
func isPlainCapabilities(capabilities strictjson.Value) bool {
	if capabilities.Kind() != strictjson.Object {
		return false
	}
	for name, v := range capabilities.Members() {
		switch string(name.Bytes()) {
		case "extensions", "elicitation", "sampling", "roots":
		default:
			return false
		}
		if v.Kind() != strictjson.Object {
			return false
		}
		for _, member := range v.Members() {
			if member.Kind() != strictjson.Object || member.Len() > 0 {
				return false
			}
		}
	}
	return true
}
