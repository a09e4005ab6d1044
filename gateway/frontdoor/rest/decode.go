package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/lib/nearest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// fieldsOfInvoke are the fields of the JSON of an InvokeRequest.
var fieldsOfInvoke = []string{"tool_name", "args", "config", "session_id", "thread_id", "capability_id"}

// decodeInvoke reads the JSON of an InvokeRequest. args and config are copied as text into the bytes fields;
// capability is the path's.
func decodeInvoke(data []byte, capability string, req *capgatepb.InvokeRequest) error {
	m, err := membersOf(data)
	if err != nil {
		return err
	}
	var id string
	for _, f := range []struct {
		name string
		to   *string
	}{{"tool_name", &req.ToolName}, {"session_id", &req.SessionId}, {"thread_id", &req.ThreadId}, {"capability_id", &id}} {
		if *f.to, err = m.text(f.name); err != nil {
			return err
		}
	}
	if req.ArgsJson, err = m.object("args"); err != nil {
		return err
	}
	if req.ConfigJson, err = m.object("config"); err != nil {
		return err
	}
	if len(m) > 0 {
		unknown := slices.Min(slices.Collect(maps.Keys(m)))
		return fmt.Errorf("the body has an unknown field %.64q%s", unknown, nearest.Hint(unknown, fieldsOfInvoke))
	}
	if req.GetToolName() == "" {
		return errors.New("tool_name is required")
	}
	if id != "" && id != capability {
		return errors.New("capability_id in the body is not the capability in the path")
	}
	return nil
}

// decodeMessage reads a message that holds nothing whose text matters. No body is an empty
// message.
func decodeMessage(data []byte, m proto.Message) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := checkJSON(data); err != nil {
		return err
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		return errors.New("the body is invalid: " + problem.WithoutValue(err.Error()))
	}
	return nil
}

// objectOf returns the text of a tool's arguments, a JSON object; {} if it is absent.
func objectOf(data []byte) ([]byte, error) {
	data = bytes.Trim(data, " \t\r\n")
	if len(data) == 0 {
		return []byte("{}"), nil
	}
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	if data[0] != '{' {
		return nil, errors.New("the body must be a JSON object, the arguments of the tool")
	}
	return data, nil
}

// members are the fields of a JSON object that have not been consumed yet.
type members map[string]json.RawMessage

func membersOf(data []byte) (members, error) {
	data = bytes.Trim(data, " \t\r\n")
	if len(data) == 0 {
		return nil, errors.New(`the body is empty: send JSON like {"tool_name": "…", "args": {…}}`)
	}
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	var m members
	if data[0] != '{' || json.Unmarshal(data, &m) != nil {
		return nil, errors.New(`the body must be a JSON object like {"tool_name": "…", "args": {…}}`)
	}
	return m, nil
}

// take removes a field, by its name in the proto or by its name in JSON, as protobuf's
// JSON mapping has it. It is nil where the field is absent or null.
func (m members) take(name string) (json.RawMessage, error) {
	var found json.RawMessage
	for i, n := range slices.Compact([]string{name, camelCase(name)}) {
		v, ok := m[n]
		if !ok {
			continue
		}
		delete(m, n)
		if i > 0 && found != nil {
			return nil, fmt.Errorf("%s and %s are the same field: give one", name, n)
		}
		found = v
	}
	if string(found) == "null" {
		return nil, nil
	}
	return found, nil
}

// camelCase is a field's name in JSON: tool_name is toolName.
func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// text takes a string; "" where it is absent.
func (m members) text(name string) (string, error) {
	raw, err := m.take(name)
	if raw == nil || err != nil {
		return "", err
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// object consumes a JSON object, given directly in name or as base64 in name_json. If it is absent, it is {}:
// capabilities expect an object.
func (m members) object(name string) ([]byte, error) {
	plain, err := m.take(name)
	if err != nil {
		return nil, err
	}
	encoded, err := m.text(name + "_json")
	if err != nil {
		return nil, err
	}
	switch {
	case plain != nil && encoded != "":
		return nil, fmt.Errorf("%s and %s_json exclude each other: give one", name, name)
	case plain != nil:
		if plain[0] != '{' {
			return nil, fmt.Errorf("%s must be a JSON object", name)
		}
		return plain, nil
	case encoded != "":
		b, err := decodeBase64(encoded)
		if err != nil {
			return nil, fmt.Errorf("%s_json must be base64", name)
		}
		return b, nil
	}
	return []byte("{}"), nil
}

// decodeBase64 takes what protobuf's JSON mapping does: either alphabet, padded or not.
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
