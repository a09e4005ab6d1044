package webhook

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/notice"
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

// body formats an event for a destination. An event that is too long goes without the arguments.
func (c *Config) body(e *Event, a *approvals.Approval, render Render) ([]byte, error) {
	if c.Mail.On || c.Format != Generic {
		return c.notice(e, a)
	}
	text, err := generic(e, a, render)
	if err == nil && len(text) > maxBody {
		short := *a
		short.Preview = ""
		text, err = generic(e, &short, render)
	}
	if err == nil && len(text) > maxBody {
		err = errBody
	}
	return text, err
}

// notice formats an event for people.
func (c *Config) notice(e *Event, a *approvals.Approval) ([]byte, error) {
	n := notice.New(e.Kind, a)
	switch {
	case c.Mail.On:
		from, to, err := c.Mail.addresses()
		if err != nil {
			return nil, err
		}
		return notice.Mail(&n, &notice.Envelope{From: from, To: to, ID: e.ID, Approval: e.Approval,
			First: e.Kind == approvals.EventCreated, Date: e.At})
	case c.Format == Slack:
		return notice.Slack(&n)
	default:
		return notice.Teams(&n)
	}
}

func generic(e *Event, a *approvals.Approval, render Render) ([]byte, error) {
	data, err := render(a)
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(message{Type: "approval." + string(e.Kind), Timestamp: e.At.UTC(), Data: data})
}
