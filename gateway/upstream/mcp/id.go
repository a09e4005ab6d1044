package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// wire is an encoded message.
type wire struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *jsonrpc.Error  `json:"error,omitempty"`
}

// isUnnamed reports whether a response has no id of a request.
func (m *message) isUnnamed() bool { return len(m.ID) == 0 || string(m.ID) == "null" }

// answering returns a response with the id as it was sent, if the server wrote it in another form, or if an error has
// no id: otherwise the SDK would continue to wait. An empty id means that no response is expected.
func (m *message) answering(id string, data []byte) ([]byte, error) {
	switch {
	case id == "" || string(m.ID) == id:
		return data, nil
	case isForm(m.ID, id):
		m.ID = json.RawMessage(id)
	case !m.isUnnamed() || m.Error == nil || len(m.Result) > 0:
		return data, nil
	}
	return plainjson.Marshal(wire{Version: "2.0", ID: json.RawMessage(id), Result: m.Result, Error: m.Error})
}

// isForm reports whether got is the number id as a string, or with a fraction, as some servers write it.
func isForm(got json.RawMessage, id string) bool {
	var text string
	if bytes.HasPrefix(got, []byte(`"`)) && json.Unmarshal(got, &text) == nil {
		return text == id
	}
	n, err := strconv.ParseFloat(string(got), 64)
	return err == nil && strconv.FormatFloat(n, 'f', -1, 64) == id
}

// question returns a request of the server with its id as a string, which the SDK returns unchanged. It would round
// numbers.
func (m *message) question() ([]byte, error) {
	id, err := plainjson.Marshal(string(m.ID))
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(wire{Version: "2.0", ID: id, Method: m.Method, Params: m.Params})
}

// answer returns the HTTP request with the SDK's response to such a request, with the server's original id.
func answer(r *http.Request) (*http.Request, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	var m wire
	var id string
	if err = json.NewDecoder(body).Decode(&m); err == nil {
		err = json.Unmarshal(m.ID, &id)
	}
	if err != nil {
		return nil, err
	}
	m.ID = json.RawMessage(id)
	text, err := plainjson.Marshal(m)
	if err != nil {
		return nil, err
	}
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
	return r, nil
}
