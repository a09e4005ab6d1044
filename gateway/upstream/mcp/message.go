package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// message is a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`
}

// parse parses a message. The error means that it is not valid, or is ambiguous.
func parse(data []byte) (*message, error) {
	if err := strictjson.Check(data); err != nil {
		return nil, violates("the MCP server's message %v", err)
	}
	m := new(message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, violates("the MCP server's message is not JSON-RPC")
	}
	return m, nil
}

// head holds the used fields of a message that the SDK sends.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// headOf returns the head of the message in an HTTP request; zero means none.
func headOf(r *http.Request) (sent head) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return sent
	}
	if body, err := r.GetBody(); err == nil {
		_ = json.NewDecoder(body).Decode(&sent) // the SDK sends JSON
	}
	return sent
}

// isAside reports whether a message expects no response.
func (h head) isAside() bool {
	return h.isAnswer() || h.Method != "" && len(h.ID) == 0 && h.Method != "notifications/initialized"
}

// isAnswer reports whether a message is the response to a request of the server.
func (h head) isAnswer() bool { return h.Method == "" && len(h.ID) > 0 }

// receive processes a message of a server, and returns it for the SDK; nil means the SDK does not need it. ex is nil
// if the message belongs to no tracked request. id is the id of the request that the message may respond to; empty
// means none. only is true if the body has no other message. answers reports whether it is a response.
func (t *transport) receive(data []byte, ex *exchange, id string, only bool) (pass []byte, answers bool, _ error) {
	m, err := parse(data)
	if err == nil && m.Method == nil {
		data, err = m.answering(id, data)
	}
	switch {
	case err != nil:
		return nil, false, err
	case m.Method == nil && ex != nil:
		if err = ex.response(m); err == nil && ex.opaque() {
			data = ex.unanswered()
		}
		return data, true, err
	case m.Method == nil && id != "" && !m.isUnnamed() && string(m.ID) != id:
		return nil, true, errAnother
	case m.Method == nil:
		return m.declaring(data), true, nil
	case only:
		return nil, false, violates("the MCP server's message is not a response")
	case len(m.ID) > 0 && t.asked(ex, m):
		return nil, false, nil
	case len(m.ID) > 0:
		pass, err = t.question(m)
		return pass, false, err
	case ex == nil:
		return data, false, nil
	case *m.Method == "notifications/progress":
		ex.progress(m.Params)
	case *m.Method == "notifications/message":
		ex.log(m.Params)
	}
	return nil, false, nil // no call needs other notifications
}

var errAnother = violates("the MCP server's response is for another request")

// maxQuestions is the maximum number of a server's unanswered requests, which are all refused.
const maxQuestions = 16

// question counts a request of the server, and returns it for the SDK; nil means it is dropped.
func (t *transport) question(m *message) ([]byte, error) {
	if t.questions.Add(1) <= maxQuestions {
		return m.question()
	}
	t.questions.Add(-1)
	return nil, nil
}
