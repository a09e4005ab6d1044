package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`
}

// parse reads a message. The error is that it is none, or that it has more than one reading.
func parse(data []byte) (*message, error) {
	if err := strictjson.Check(data); err != nil {
		return nil, violates("the MCP server's message %v", err)
	}
	m := new(message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, violates("the MCP server's message is not of JSON-RPC")
	}
	return m, nil
}

// receive takes note of a message of a server. pass is whether the SDK has a use for it. ex is nil where the message is
// of no request that is noted. only: the body has nothing else.
func (t *transport) receive(data []byte, ex *exchange, only bool) (pass bool, _ error) {
	m, err := parse(data)
	switch {
	case err != nil:
		return false, err
	case m.Method == nil && ex == nil:
		return true, nil
	case m.Method == nil:
		return true, ex.response(m, only)
	case only:
		return false, violates("the MCP server answers with a message that is no response")
	case len(m.ID) > 0:
		return t.question(), nil
	case ex == nil:
		return true, nil
	case *m.Method == "notifications/progress":
		ex.progress(m.Params)
	}
	return false, nil // no call needs other notifications
}

// maxQuestions is how many requests of a server may wait for their answers, which are refusals.
const maxQuestions = 16

// question counts a request of the server, and says whether the SDK gets it.
func (t *transport) question() bool {
	if t.questions.Add(1) <= maxQuestions {
		return true
	}
	t.questions.Add(-1)
	return false
}

// isAside reports whether a request of HTTP is of a message that expects no response. answers: it is a response.
func isAside(r *http.Request) (aside, answers bool) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return false, false
	}
	body, err := r.GetBody()
	if err != nil {
		return false, false
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&m) != nil || m.Method == "notifications/initialized" {
		return false, false
	}
	return len(m.ID) == 0 || m.Method == "", m.Method == ""
}
