package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
		n := notice.New(e.Kind, a)
		return c.notice(e, &n)
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

// limitBody formats an event of a quota for a destination.
func (c *Config) limitBody(e *Event) ([]byte, error) {
	var l notice.Limit
	if err := json.Unmarshal([]byte(e.Limit), &l); err != nil {
		return nil, fmt.Errorf("event of a quota: %w", err)
	}
	if c.Mail.On || c.Format != Generic {
		n := notice.OfLimit(&l)
		return c.notice(e, &n)
	}
	return signedBody(e, []byte(e.Limit))
}

// notice formats an event for people.
func (c *Config) notice(e *Event, n *notice.Notice) ([]byte, error) {
	switch {
	case c.Mail.On:
		from, to, err := c.Mail.addresses()
		if err != nil {
			return nil, err
		}
		return notice.Mail(n, &notice.Envelope{From: from, To: to, ID: e.ID, Approval: cmp.Or(e.Approval, e.ID),
			First: e.Kind == approvals.EventCreated || e.Kind == NearLimit, Date: e.At})
	case c.Format == Slack:
		return notice.Slack(n)
	default:
		return notice.Teams(n)
	}
}

func generic(e *Event, a *approvals.Approval, render Render) ([]byte, error) {
	data, err := render(a)
	if err != nil {
		return nil, err
	}
	return signedBody(e, data)
}

// signedBody returns the JSON of a request.
func signedBody(e *Event, data json.RawMessage) ([]byte, error) {
	return plainjson.Marshal(message{Type: e.Type(), Timestamp: e.At.UTC(), Data: data})
}
