package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

const (
	toolsCall = "tools/call"
	maxMethod = 128 // bytes of a method's name
	maxID     = 256 // bytes of a request's id
	copies    = 4   // copies of a body that exist at once: here, twice in the SDK, and in the call
)

// message is a JSON-RPC message with unambiguous JSON.
type message struct {
	body      []byte
	held      *bodybudget.Reservation // memory of the request; nil means no limit
	id        []byte                  // JSON; a number has the client's digits; nil means none
	method    string                  // empty means a response
	params    []byte                  // JSON of an object in body, for the SDK; nil means none
	version   string                  // protocol version in the header; empty if absent
	streams   bool                    // the response consists of events
	mayStream bool                    // the client also accepts events
	cancels   string                  // id of the request that it cancels; empty means none
	tool      string                  // called tool; empty means none, or its name is too long
	meta      meta
	answer    *answer                         // for a response to elicitation/create; nil otherwise
	failed    bool                            // a response with an error
	call      *directCall                     // call that needs no SDK; nil otherwise
	listens   *sdk.SubscriptionsListenRequest // subscription that needs no SDK; nil otherwise
	result    []byte                          // JSON of the result or the error of a response
	inputs    []byte                          // JSON of inputResponses, an object; nil means none
	// Messages of a batch, for which the other fields are unset; nil means a single message.
	batch []json.RawMessage

	exchange exchange // in which the message is served
	memory   *memory  // whose buffer body is; nil means none
}

// isStateless reports whether the request is of a revision without sessions.
func (m *message) isStateless() bool { return m.version >= statelessVersion }

// read reads the message of a request. Even with an error, the message may have the request's id.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (*message, error) {
	m := &message{version: header.First(r.Header, "Mcp-Protocol-Version"), held: bodybudget.FromContext(r.Context())}
	if r.Method != http.MethodPost {
		return m, methodRefused(w.Header(), r)
	}
	if err := m.checkHeader(r.Header); err != nil {
		return m, err
	}
	if err := h.readBody(w, r, m); err != nil {
		return m, err
	}
	if err := m.parse(r.Header); err != nil {
		return m, err
	}
	return m, m.checkVersion()
}

// methodRefused returns the error of a request that is not a POST and opens no stream of events.
func methodRefused(head http.Header, r *http.Request) error {
	switch {
	case !hasStreams(r):
		head.Set("Allow", http.MethodPost)
	case r.Method == http.MethodGet:
		return refused(http.StatusNotAcceptable, jsonrpc.CodeInvalidRequest, "NOT_ACCEPTABLE",
			"GET opens a stream of events: accept text/event-stream; MCP messages are sent with POST")
	default:
		head.Set("Allow", "GET, POST")
	}
	return refused(http.StatusMethodNotAllowed, jsonrpc.CodeInvalidRequest, "METHOD_NOT_ALLOWED",
		"MCP messages are sent with POST")
}

// checkHeader validates the headers of a message.
func (m *message) checkHeader(h http.Header) error {
	typ := header.First(h, "Content-Type")
	if typ != jsonType[0] {
		typ, _, _ = mime.ParseMediaType(typ) // empty on error
	}
	if typ != jsonType[0] {
		return refused(http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, "UNSUPPORTED_MEDIA_TYPE",
			"an MCP message must be JSON: send it with Content-Type: application/json")
	}
	if coding := header.First(h, "Content-Encoding"); coding != "" && coding != "identity" {
		return refused(http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, "UNSUPPORTED_ENCODING",
			"an MCP message must not be compressed")
	}
	return checkSingle(h)
}

// checkSingle rejects a repeated header of the protocol, because a proxy could read the other one.
func checkSingle(header http.Header) error {
	for _, name := range [...]string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", sessionHeader} {
		if len(header[name]) > 1 {
			return refused(http.StatusBadRequest, sdk.CodeHeaderMismatch, "MCP_HEADER_MISMATCH",
				"the header "+name+" comes more than once")
		}
	}
	return nil
}

// checkVersion validates the revision in the header.
func (m *message) checkVersion() error {
	if m.version != "" && !slices.Contains(versions(), m.version) {
		return refused(http.StatusBadRequest, sdk.CodeUnsupportedProtocolVersion, "MCP_VERSION_UNSUPPORTED",
			"the revision of MCP-Protocol-Version is not supported")
	}
	return nil
}

// find finds the values of the body, or of a part of it.
func (m *message) find(reader *strictjson.Reader, text []byte) error {
	var err error
	if len(text) > shortBody {
		if err = reader.Read(text, strictjson.Options{}); err == nil {
			done, err := m.held.Decode(reader.Values() * foundCost)
			if err != nil {
				return err
			}
			defer done()
		}
	}
	if err == nil {
		err = reader.Read(text, strictjson.Options{Keep: true})
	}
	if err != nil {
		return refused(http.StatusBadRequest, jsonrpc.CodeParseError, "INVALID_BODY", "the message "+err.Error())
	}
	return nil
}

// parse parses the JSON-RPC message in the body (JSON-RPC 2.0 §4). The SDK parses the same params later.
func (m *message) parse(header http.Header) error {
	reader := strictjson.Get()
	defer reader.Release()
	if err := m.find(reader, m.body); err != nil {
		return err
	}
	root := reader.Root()
	switch root.Kind() {
	case strictjson.Object:
	case strictjson.Array:
		m.mayStream = acceptedOf(header).named
		return m.readBatch(root.Len())
	default:
		return invalid("a message must be a JSON object")
	}
	hasResult := false
	var rpc, params strictjson.Value
	var hasRPC, hasParams bool
	for name, v := range root.Members() {
		switch string(name.Bytes()) {
		case "jsonrpc":
			rpc, hasRPC = v, true
		case "id":
			if err := m.readID(v); err != nil {
				return err
			}
		case "method":
			if v.Kind() != strictjson.String || len(v.Bytes()) == 0 || len(v.Bytes()) > maxMethod {
				return invalid("method must be a string of 1 to 128 bytes")
			}
			if m.method = toolsCall; string(v.Bytes()) != m.method { // else it need not be copied
				m.method = string(v.Bytes())
			}
		case "params":
			params, hasParams = v, true
		case "result":
			hasResult, m.answer, m.result = true, readAnswer(v), v.Raw()
		case "error":
			m.failed, m.result = true, v.Raw()
		}
	}
	switch {
	case !hasRPC || rpc.Kind() != strictjson.String || string(rpc.Bytes()) != "2.0":
		return invalid(`jsonrpc is "2.0"`)
	case (m.method == "") != (hasResult != m.failed):
		return invalid("a message must have a method, or be a response")
	case hasParams && params.Kind() != strictjson.Object:
		return invalid("params must be a JSON object")
	case m.id != nil && m.method != "" && !m.isServed():
		return m.unknownMethod()
	}
	if !hasParams {
		m.readAccept(header)
		return nil
	}
	return m.readParams(params, header)
}

// readParams reads the used fields of the params.
func (m *message) readParams(params strictjson.Value, h http.Header) error {
	if meta, ok := params.Get("_meta"); ok && meta.Kind() == strictjson.Object {
		m.meta.read(meta, m.version)
		if m.meta.wrongLevel && m.isStateless() {
			//nolint:staticcheck // deprecated, and still a part of the protocol
			return invalidParams("the level " + sdk.MetaKeyLogLevel + " in _meta is not one of MCP")
		}
	}
	m.readAccept(h)
	if v, ok := params.Get("inputResponses"); ok && v.Kind() == strictjson.Object && v.Len() > 0 {
		m.inputs = v.Raw()
	}
	switch m.method {
	case "initialize":
		if capabilities, ok := params.Get("capabilities"); ok {
			m.meta.readCapabilities(capabilities)
		}
	case "notifications/cancelled":
		m.readCancelled(params)
	case toolsCall:
		if name, ok := params.Get("name"); ok && name.Kind() == strictjson.String && len(name.Bytes()) <= maxName {
			if m.tool = header.First(h, "Mcp-Name"); string(name.Bytes()) != m.tool {
				m.tool = string(name.Bytes())
			}
		}
		m.call = m.readDirect(params, h)
	case "subscriptions/listen":
		if err := m.readListen(params, h); err != nil {
			return err
		}
	case promptsGet:
		if err := checkPromptArguments(params); err != nil {
			return err
		}
	}
	if m.call == nil && m.listens == nil {
		if err := m.holdDecoded(params); err != nil {
			return err
		}
		m.params = params.Raw()
	}
	if slices.Contains(taskMethods(), m.method) {
		return m.checkTask(params, h)
	}
	return nil
}

// holdDecoded reserves memory for the params that the SDK decodes: all but the arguments of a tool.
func (m *message) holdDecoded(params strictjson.Value) error {
	n := params.Count()
	if args, ok := params.Get("arguments"); ok && m.method == toolsCall {
		n -= args.Count()
	}
	if n > bodybudget.MaxValues {
		return refused(http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, "BODY_TOO_LARGE",
			fmt.Sprintf("params has more than %d values", bodybudget.MaxValues))
	}
	_, err := m.held.DecodeValues(n) // until the response ends
	return err
}

// readID reads a request's id. MCP does not allow null (Base Protocol, "Requests"). An integer may have more digits
// than a double represents. Numbers with a fraction or an exponent are rejected, because decoders differ about which
// of them are integers.
func (m *message) readID(v strictjson.Value) error {
	text := v.Bytes()
	switch {
	case len(text) > maxID:
	case v.Kind() == strictjson.Number && !bytes.ContainsAny(text, ".eE"):
		m.id = bytes.Clone(text)
	case v.Kind() == strictjson.String:
		m.id, _ = json.Marshal(string(text)) // strings can always be encoded
	}
	if m.id == nil {
		return invalid("id must be a string of at most 256 bytes, or an integer of at most 256 digits")
	}
	return nil
}

// isServed reports whether this server has the method of a request.
func (m *message) isServed() bool {
	switch m.method {
	case "initialize", "ping", "tools/list", toolsCall, "server/discover":
		return true
	case "prompts/list", "resources/list", "resources/templates/list":
		return true
	case "subscriptions/listen":
		return m.isStateless()
	case "logging/setLevel", subscribeMethod, unsubscribeMethod:
		return !m.isStateless()
	}
	if isFeatureCall(m.method) {
		return true
	}
	return m.isStateless() && slices.Contains(taskMethods(), m.method)
}

// checkTask compares the task of a request with the one in its header (Tasks, "Routing Headers"). The SDK compares the
// names of tools.
func (m *message) checkTask(params strictjson.Value, header http.Header) error {
	name := header.Get("Mcp-Name")
	if name == "" {
		return nil
	}
	if id, ok := params.Get("taskId"); ok && id.Kind() == strictjson.String && string(id.Bytes()) == name {
		return nil
	}
	return refused(http.StatusBadRequest, sdk.CodeHeaderMismatch, "MCP_HEADER_MISMATCH",
		"the header Mcp-Name does not match the taskId in the message")
}

// usualAccept is the Accept header of the SDKs.
const usualAccept = "application/json, text/event-stream"

// accepted holds the content types that a client accepts.
type accepted struct {
	json, events bool
	named        bool // events are named: a client that sends a wildcard may only support JSON
}

func acceptedOf(header http.Header) accepted {
	if values := header["Accept"]; len(values) == 1 && values[0] == usualAccept {
		return accepted{true, true, true}
	}
	ranges := accept.Ranges(header, "Accept")
	return accepted{accept.Weigh(ranges, jsonType[0]) > 0, accept.Weigh(ranges, stream.Events) > 0,
		accept.Named(header, stream.Events)}
}

// readAccept determines the form of the response.
func (m *message) readAccept(header http.Header) {
	takes := acceptedOf(header)
	m.streams = m.method == "subscriptions/listen" || takes.events && (m.meta.progress || !takes.json)
	m.mayStream = m.id != nil && (m.streams || takes.named)
}
