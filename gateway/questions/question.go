package questions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// Kinds is a set of kinds of questions.
type Kinds uint8

// Kinds of questions.
const (
	Forms    Kinds = 1 << iota // elicitation/create with a form
	URLs                       // elicitation/create with a URL
	Sampling                   // sampling/createMessage
	Roots                      // roots/list

	Elicitation = Forms | URLs
)

// Bounds of a question.
const (
	MaxForm   = 64 << 10 // bytes of the params of a form or a URL, and of a client's roots
	MaxSample = 1 << 20  // bytes of the params of sampling/createMessage
	MaxAnswer = 1 << 20  // bytes of an answer, and of all answers of a repeated call
	MaxState  = 64 << 10 // bytes of a server's requestState
	MaxMany   = 16       // questions in one result
	MaxKey    = 128      // bytes of the key of a question
	maxURL    = 2 << 10  // bytes of a URL
	maxFields = 64       // properties of a form
	maxValues = 16 << 10 // values of JSON in an answer
)

// Methods of questions.
const (
	elicit = "elicitation/create"
	sample = "sampling/createMessage"
	roots  = "roots/list"
)

// Question is a question of a server, within its bounds.
type Question struct {
	Kind   Kinds
	Method string
	Params json.RawMessage // an object
}

// Is reports whether a method is that of a question.
func Is(method string) bool { return method == elicit || method == sample || method == roots }

// Source is the tool whose server asks.
type Source struct {
	Capability, Tool string
	// Own reports whether a URL leads to the gateway itself; nil means that none does.
	Own func(u *url.URL) bool
}

// Read reads a question. Its message names its source first, so that it cannot pass for a question of the gateway. The
// params must be unambiguous JSON. The error is for the server.
func Read(method string, params json.RawMessage, from Source) (*Question, error) {
	members := map[string]json.RawMessage{}
	if len(params) > 0 && string(params) != "null" && json.Unmarshal(params, &members) != nil {
		return nil, fmt.Errorf("the params of %.32s are not an object", method)
	}
	most := MaxForm
	if method == sample {
		most = MaxSample
	}
	if len(params) > most {
		return nil, fmt.Errorf("the params of %.32s have more than %d bytes", method, most)
	}
	q := &Question{Method: method}
	var err error
	switch method {
	case elicit:
		q.Kind, err = readElicitation(members, from)
	case sample:
		q.Kind, err = Sampling, readSampling(members)
	case roots:
		q.Kind = Roots
	default:
		err = fmt.Errorf("clients of this gateway have no method %.64q", method)
	}
	if err != nil {
		return nil, err
	}
	q.Params, err = plainjson.Marshal(known(q.Kind, members))
	return q, err
}

// known returns the members that questions of a kind have. Others do not pass: a client that ignores the case of names
// could take one for a member that was checked. _meta has tokens of another connection, and tasks of the client are not
// the server's.
func known(kind Kinds, members map[string]json.RawMessage) map[string]json.RawMessage {
	var names []string
	switch kind {
	case Forms:
		names = []string{"mode", "message", "requestedSchema"}
	case URLs:
		names = []string{"mode", "message", "url", "elicitationId"}
	case Sampling: // not includeContext: the context of other servers is not for this one
		names = []string{"messages", "modelPreferences", "systemPrompt", "temperature", "maxTokens", "stopSequences",
			"metadata"}
	}
	kept := make(map[string]json.RawMessage, len(names))
	for _, name := range names {
		if value, ok := members[name]; ok {
			kept[name] = value
		}
	}
	return kept
}

// readElicitation checks a form or a URL, and attributes its message.
func readElicitation(members map[string]json.RawMessage, from Source) (Kinds, error) {
	mode, message := "form", ""
	if raw, ok := members["mode"]; ok && json.Unmarshal(raw, &mode) != nil {
		return 0, fmt.Errorf("the mode of an elicitation is not a string")
	}
	if json.Unmarshal(members["message"], &message) != nil {
		return 0, fmt.Errorf("an elicitation has no message")
	}
	kind := Forms
	switch mode {
	case "form":
		if err := checkForm(members["requestedSchema"]); err != nil {
			return 0, err
		}
	case "url":
		kind = URLs
		if err := checkURL(members["url"], from.Own); err != nil {
			return 0, err
		}
	default:
		return 0, fmt.Errorf("elicitation has no mode %.32q", mode)
	}
	attributed, err := plainjson.Marshal(from.attribute(message))
	members["message"], members["mode"] = attributed, json.RawMessage(`"`+mode+`"`)
	return kind, err
}

// attribute puts the source in front of a server's message. The server cannot write in front of it, and cannot end it.
func (s Source) attribute(message string) string {
	return fmt.Sprintf("Message of the tool %q of %q, which its server wrote; an answer goes to the server and "+
		"approves nothing:\n\n%s", s.Tool, s.Capability, message)
}

// checkForm checks the schema of a form: an object of at most maxFields properties.
func checkForm(raw json.RawMessage) error {
	var schema, properties map[string]json.RawMessage
	var kind string
	switch {
	case json.Unmarshal(raw, &schema) != nil || json.Unmarshal(schema["type"], &kind) != nil || kind != "object":
		return errors.New("the requestedSchema of a form does not describe an object")
	case schema["properties"] != nil && json.Unmarshal(schema["properties"], &properties) != nil:
		return errors.New("the properties of a form are not an object")
	case len(properties) > maxFields:
		return fmt.Errorf("a form has more than %d fields", maxFields)
	}
	return nil
}

// checkURL checks the URL of an elicitation. A client opens it in a browser, so that other schemes are refused. A page
// of the gateway, such as that of an approval, must not open for a server.
func checkURL(raw json.RawMessage, own func(*url.URL) bool) error {
	var text string
	if json.Unmarshal(raw, &text) != nil || len(text) > maxURL || strings.ContainsFunc(text, isBlank) {
		return fmt.Errorf("the url of an elicitation is not a URL of at most %d bytes", maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the url of an elicitation must begin with http:// or https://, and have no user")
	case !isPlain(u.Hostname()) || portOf(cmp.Or(u.Port(), u.Scheme)) == 0:
		return errors.New("the host of an elicitation's url is neither an ASCII name nor an address in its usual " +
			"notation, or its port is not one")
	case own != nil && own(u):
		return errors.New("the url of an elicitation is an address of the gateway itself")
	}
	return nil
}

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// readSampling checks a request for a sample. Clients declare support for tools in it separately, which the gateway
// does not pass on.
func readSampling(members map[string]json.RawMessage) error {
	for _, name := range [...]string{"tools", "toolChoice"} {
		if _, ok := members[name]; ok {
			return fmt.Errorf("sampling with tools is not supported")
		}
	}
	var messages []json.RawMessage
	if json.Unmarshal(members["messages"], &messages) != nil {
		return fmt.Errorf("a request for a sample has no list of messages")
	}
	return nil
}

// Without returns the params without a member.
func (q *Question) Without(name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(q.Params, &members) != nil {
		return q.Params
	}
	delete(members, name)
	text, err := plainjson.Marshal(members)
	if err != nil {
		return q.Params
	}
	return text
}
