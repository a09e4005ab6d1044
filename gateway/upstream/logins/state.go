package logins

import (
	"context"
	"strings"
	"time"
)

// States of a login.
const (
	Active = "active"
	Needed = "needed"
)

// shownFor is the time for which a login whose token was rejected counts as needed. While that lasts, the server is
// asked again.
const shownFor = 5 * time.Minute

// State is the state of the login of a fleet.
type State struct {
	Fleet
	State   string  // Active or Needed
	Problem string  // what the next login solves; "" means none
	Record  *Record // without tokens and secrets; nil means none
	// Refreshable reports whether there is a refresh token.
	Refreshable bool
	// Metadata and Ask are for the next login: the URL of the server's metadata, and the scopes to request. "" and none
	// mean those that the server names.
	Metadata string
	Ask      []string
}

// State reads the state of the login of a fleet.
func (l *Logins) State(ctx context.Context, fleet string) (State, error) {
	of := l.Of(fleet)
	if of == nil {
		return State{}, ErrUnknown
	}
	k, err := of.load(ctx)
	if err != nil {
		return State{}, err
	}
	return of.state(k, time.Now()), nil
}

func (l *Login) state(k *entry, now time.Time) State {
	s := State{Fleet: l.of, State: Active, Metadata: k.challenge.Metadata}
	if k.challenge.rejects(k.version, shownFor) || !k.usable(now) && (k.Record == nil || k.Refresh == "") {
		s.State, s.Problem = Needed, k.problem(now)
	} else if len(k.challenge.More) > 0 {
		s.Problem = "the token lacks scopes: " + strings.Join(k.challenge.More, " ")
	}
	s.Secret = ""
	if k.Record != nil {
		shown := *k.Record
		shown.Access, shown.Refresh, shown.ClientSecret = "", "", ""
		s.Record, s.Refreshable = &shown, k.Refresh != ""
		s.Ask = shown.Scopes
	}
	if s.Ask = scopesOf(s.Ask, k.challenge.Scopes, k.challenge.More); len(l.of.Scopes) > 0 {
		s.Ask = l.of.Scopes
	}
	return s
}
