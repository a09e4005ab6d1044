package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// Render formats an approval as JSON, as the API does.
type Render func(*approvals.Approval) ([]byte, error)

// message is the body of a request.
type message struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"` // of the event
	Data      json.RawMessage `json:"data"`
}

var errBody = errors.New("the event is too long for a request")

// body formats an event. An event that is too long goes without the arguments.
func body(e *Event, a *approvals.Approval, render Render) ([]byte, error) {
	text, err := bodyOf(e, a, render)
	if err == nil && len(text) > maxBody {
		short := *a
		short.Preview = ""
		text, err = bodyOf(e, &short, render)
	}
	if err == nil && len(text) > maxBody {
		err = errBody
	}
	return text, err
}

func bodyOf(e *Event, a *approvals.Approval, render Render) ([]byte, error) {
	data, err := render(a)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // it would only make the text longer
	err = encoder.Encode(message{Type: "approval." + string(e.Kind), Timestamp: e.At.UTC(), Data: data})
	return bytes.TrimSpace(text.Bytes()), err
}
