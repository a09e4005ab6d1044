package invocation

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/strictjson"
)

// Call has the fields of a tool call. They may be parts of the text, and of the memory of its Reader.
type Call struct{ Tool, Args, Config, Session, Thread []byte }

// EmptyObject is the value of missing arguments or a missing configuration. It must not be changed.
var EmptyObject = []byte("{}") //nolint:gochecknoglobals // a constant

// Members of a capgate.v1.InvokeRequest in JSON.
const (
	tool = iota
	args
	config
	session
	thread
	capabilityID
	argsJSON
	configJSON
	members
)

// member is a member's name in the proto and in protobuf's JSON mapping, with its kind.
type member struct {
	name, camel string
	object      bool
}

//nolint:gochecknoglobals // a table
var fields = [members]member{
	tool:         {"tool_name", "toolName", false},
	args:         {"args", "args", true},
	config:       {"config", "config", true},
	session:      {"session_id", "sessionId", false},
	thread:       {"thread_id", "threadId", false},
	capabilityID: {"capability_id", "capabilityId", false},
	argsJSON:     {"args_json", "argsJson", false},
	configJSON:   {"config_json", "configJson", false},
}

// Read parses the JSON of a capgate.v1.InvokeRequest, the body of a request whose path names the capability. The error
// is a *call.Refusal.
func Read(r *strictjson.Reader, text []byte, capability string) (Call, error) {
	if err := r.Read(text, strictjson.Options{Keep: true, Depth: 1}); err != nil {
		if len(bytes.Trim(text, blanks)) == 0 {
			return Call{}, Invalid(`the body is empty: send JSON like {"tool_name": "…", "args": {…}}`)
		}
		return Call{}, refuse(err, "the body", InvalidBody, 2)
	}
	root := r.Root()
	if root.Kind() != strictjson.Object {
		return Call{}, Invalid(`the body must be a JSON object like {"tool_name": "…", "args": {…}}`)
	}
	var found [members][]byte
	if err := take(root, &found); err != nil {
		return Call{}, err
	}
	switch id := found[capabilityID]; {
	case len(found[tool]) == 0:
		return Call{}, Invalid("tool_name is required")
	case len(id) > 0 && string(id) != capability:
		return Call{}, Invalid("capability_id in the body is not the capability in the path")
	}
	for _, of := range [...]struct{ plain, encoded int }{{args, argsJSON}, {config, configJSON}} {
		if err := object(&found, of.plain, of.encoded); err != nil {
			return Call{}, err
		}
	}
	return Call{found[tool], found[args], found[config], found[session], found[thread]}, nil
}

// take reads the members of an object. null means that a member is absent.
func take(root strictjson.Value, found *[members][]byte) error {
	var seen [members]bool
	for name, v := range root.Members() {
		i := find(name.Bytes())
		if i < 0 {
			return unknown(string(name.Bytes()))
		}
		f := &fields[i]
		switch kind := v.Kind(); {
		case seen[i]:
			return Invalid(fmt.Sprintf("%s and %s are the same field: set only one", f.name, f.camel))
		case kind == strictjson.Null:
		case f.object && kind == strictjson.Object:
			found[i] = v.Raw()
		case f.object:
			return Invalid(f.name + " must be a JSON object")
		case kind == strictjson.String:
			found[i] = v.Bytes()
		default:
			return Invalid(f.name + " must be a string")
		}
		seen[i] = true
	}
	return nil
}

// find returns the index of a member; -1 means unknown.
func find(name []byte) int {
	for i := range fields {
		if f := &fields[i]; string(name) == f.name || string(name) == f.camel {
			return i
		}
	}
	return -1
}

func unknown(name string) error {
	var known []string
	for _, f := range fields[:argsJSON] {
		known = append(known, f.name)
	}
	return Invalid(fmt.Sprintf("the body has an unknown field %.64q%s", name, nearest.Hint(name, known)))
}

// object sets a member from a JSON object, or from the base64 of one; {} if both are absent.
func object(found *[members][]byte, plain, encoded int) error {
	text := found[encoded]
	switch {
	case len(text) > 0 && found[plain] != nil:
		return Invalid(fmt.Sprintf("%s and %s are mutually exclusive: set "+
			"only one", fields[plain].name, fields[encoded].name))
	case len(text) > 0:
		data, err := decodeBase64(string(text))
		if err != nil {
			return Invalid(fields[encoded].name + " must be base64")
		}
		found[plain] = data
	case found[plain] == nil:
		found[plain] = EmptyObject
	}
	return nil
}

// decodeBase64 decodes the base64 of protobuf's JSON mapping: either alphabet, with or without padding.
func decodeBase64(s string) ([]byte, error) {
	enc := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.URLEncoding
	}
	if len(s)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	return enc.DecodeString(s)
}

// Invalid returns the *call.Refusal of an invalid body.
func Invalid(text string) error {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: InvalidBody, Message: text}
}
