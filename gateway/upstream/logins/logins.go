package logins

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Config configures Logins. All fields but Changed are required.
type Config struct {
	Store Store
	// Keys returns the keys of all replicas. Without keys, no login can be stored or read.
	Keys func(context.Context) [][]byte
	Log  *slog.Logger
	// Changed is called when the login of a fleet has changed. It must not block.
	Changed func(fleet string)
}

// Logins holds the logins of fleets. It is safe for concurrent use. A nil Logins has none.
type Logins struct {
	Config

	mu     sync.Mutex
	fleets map[string]*Login
}

// New returns Logins without fleets.
func New(cfg Config) *Logins {
	if cfg.Changed == nil {
		cfg.Changed = func(string) {}
	}
	return &Logins{Config: cfg, fleets: map[string]*Login{}}
}

// Set replaces the fleets whose servers require a login.
func (l *Logins) Set(fleets []Fleet) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.fleets
	l.fleets = make(map[string]*Login, len(fleets))
	for i := range fleets {
		one := before[fleets[i].Name]
		if one == nil || !reflect.DeepEqual(one.of, fleets[i]) {
			one = l.login(fleets[i], one)
		}
		l.fleets[one.of.Name] = one
	}
}

// login returns the login of a fleet whose settings have changed; before may be nil.
func (l *Logins) login(of Fleet, before *Login) *Login {
	one := &Login{logins: l, of: of, bond: of.bond(), resets: map[*func()]struct{}{}}
	if before != nil && before.bond == one.bond {
		before.mu.Lock()
		defer before.mu.Unlock()
		one.unsaved = before.unsaved
	}
	return one
}

// Of returns the login of a fleet; nil means that the fleet has no such settings.
func (l *Logins) Of(fleet string) *Login {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fleets[fleet]
}

// Run follows the logins that all replicas change, until ctx ends.
func (l *Logins) Run(ctx context.Context) {
	l.Store.Watch(ctx, l.changed, func() {
		l.mu.Lock()
		names := slices.Collect(maps.Keys(l.fleets))
		l.mu.Unlock()
		for _, name := range names {
			l.changed(name)
		}
	})
}

// changed makes requests to the server of a fleet use its new login.
func (l *Logins) changed(fleet string) {
	if of := l.Of(fleet); of != nil {
		of.changed()
		l.Changed(fleet)
	}
}

// Errors of Put and Delete.
var (
	ErrUnknown = errors.New("the fleet does not exist, or it has no oauth with grant: authorization_code")
	ErrURL     = errors.New("the login is for another URL than that of the fleet's server")
	ErrClient  = errors.New("the login is that of another client than the one with the fleet's secret")
	ErrNone    = errors.New("the fleet has no login")
)

// Put stores the login of an operator at the server of a fleet, which must have that URL.
func (l *Logins) Put(ctx context.Context, fleet, url string, r *Record) error {
	of := l.Of(fleet)
	switch {
	case of == nil:
		return ErrUnknown
	case of.of.URL != url:
		return ErrURL
	case of.of.Secret != "" && of.of.ClientID != r.ClientID:
		return ErrClient
	}
	k, err := of.load(ctx)
	if err != nil {
		return err
	}
	k.challenge.More = nil
	if _, err = of.write(ctx, r, k.challenge, "", ""); err == nil {
		l.changed(fleet)
	}
	return err
}

// Delete deletes the login of a fleet, also that of a removed one.
func (l *Logins) Delete(ctx context.Context, fleet string) error {
	if l == nil {
		return ErrNone
	}
	found, err := l.Store.Delete(ctx, fleet)
	switch {
	case err != nil:
		return err
	case !found:
		return ErrNone
	}
	l.changed(fleet)
	return nil
}
