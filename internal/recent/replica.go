package recent

import (
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// fresh is the time after which a silent replica is no longer listed. It is longer than three intervals of publications
// of a thousand replicas.
const fresh = 35 * time.Second

// Replica describes a replica.
type Replica struct {
	ID       string    `json:"id"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Ready    bool      `json:"ready"`
	Draining bool      `json:"draining,omitempty"`
	Redis    string    `json:"redis"` // ok, away or embedded
	InFlight int       `json:"in_flight"`
	Seen     time.Time `json:"seen"`
	Trouble  []Trouble `json:"trouble,omitempty"` // that other replicas cannot see
}

// maxTrouble bounds what a replica says is wrong.
const maxTrouble = 10

// Bound reports whether another replica said this, and cuts its texts.
func (r *Replica) Bound() bool {
	r.ID, r.Version, r.Redis = short(r.ID), short(r.Version), short(r.Redis)
	r.Trouble = r.Trouble[:min(len(r.Trouble), maxTrouble)]
	for i := range r.Trouble {
		r.Trouble[i].Kind, r.Trouble[i].Text = short(r.Trouble[i].Kind), untrusted.UTF8(r.Trouble[i].Text)
	}
	return r.ID != "" && !r.Seen.IsZero()
}

// Trouble is a condition of one replica that needs attention.
type Trouble struct {
	Kind string    `json:"kind"` // audit or config
	Text string    `json:"text"`
	At   time.Time `json:"at,omitzero"`
}
