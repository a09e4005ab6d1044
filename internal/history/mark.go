package history

import (
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// MaxMarks is the number of marks that are kept.
const MaxMarks = 500

// Mark is an event of a replica that may explain a change of the numbers.
type Mark struct {
	At      time.Time `json:"t"`
	Kind    string    `json:"k"` // start or reload
	Replica string    `json:"r"`
	Text    string    `json:"x,omitempty"` // the version of a start
}

// The kinds of marks.
const (
	Started  = "start"
	Reloaded = "reload"
)

// Bound reports whether a mark that another replica has written is one, and cuts its texts.
func (m *Mark) Bound() bool {
	m.Kind, m.Replica, m.Text = untrusted.Cut(m.Kind, 20), untrusted.Cut(m.Replica, maxName),
		untrusted.Cut(m.Text, maxName)
	return !m.At.IsZero() && m.Kind != ""
}
