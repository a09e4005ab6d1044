package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/session"
)

// People are the sessions of people: revocations, and a list. It is a session.Store.
type People struct{ client }

// People returns the store of the sessions of people.
func (s *Store) People() *People { return &People{s.client(Identity)} }

// Revoke implements session.Store.
func (p *People) Revoke(ctx context.Context, all []session.Revocation) error {
	keys := p.keys(nil, "{people}:state", "{people}:revoked", "{people}:ends", "{people}:issued", "{people}:list",
		"{people}:names", "{people}:owners", "{people}:shares")
	args := []any{rand.Text(), p.channel("people"), session.MaxRevocations}
	for _, v := range all {
		args = append(args, v.Until.UnixMilli(), encodeRevocation(v), v.Session, v.Name, v.Owner)
	}
	stored, err := p.run(ctx, revokeScript, keys, args...).Int()
	if err == nil && stored == 0 {
		err = session.ErrFull
	}
	return err
}

// Revoked implements session.Store.
func (p *People) Revoked(ctx context.Context, after changefeed.Position) (changefeed.Position, []session.Revocation,
	error) {
	keys := p.keys(nil, "{people}:state", "{people}:revoked")
	r := p.read(ctx, revokedScript, keys, rand.Text(), after.Epoch, strconv.FormatUint(after.Version, 10))
	at := changefeed.Position{Epoch: r.text()}
	at.Version, _ = strconv.ParseUint(r.text(), 10, 64) // 0 if malformed
	texts := r.texts()
	if err := r.end(); err != nil {
		return after, nil, err
	}
	all := make([]session.Revocation, 0, len(texts))
	for _, text := range texts {
		v, ok := decodeRevocation(text)
		if !ok {
			p.malformed(keys[1])
			continue
		}
		all = append(all, v)
	}
	return at, all, nil
}

// Watch implements session.Store.
func (p *People) Watch(ctx context.Context, changed func()) {
	p.subscribe(ctx, p.channel("people"), func(string) { changed() }, changed)
}

// Add implements session.Store.
func (p *People) Add(ctx context.Context, r session.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.run(ctx, addPersonScript, p.keys(nil, "{people}:issued", "{people}:list"), r.ID, string(text),
		r.Expires.UnixMilli(), session.MaxRecords).Err()
}

// List implements session.Store.
func (p *People) List(ctx context.Context) (all []session.Record, err error) {
	keys := p.keys(nil, "{people}:issued", "{people}:list")
	r := p.read(ctx, listPeopleScript, keys)
	for _, text := range r.texts() {
		var one session.Record
		if json.Unmarshal([]byte(text), &one) != nil || one.ID == "" {
			p.malformed(keys[0])
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b session.Record) int {
		return cmp.Or(b.Issued.Compare(a.Issued), cmp.Compare(b.ID, a.ID))
	})
	return all, r.end()
}

// encodeRevocation returns "session UNTIL ID" or "name UNTIL BEFORE NAME".
func encodeRevocation(v session.Revocation) string {
	until := strconv.FormatInt(v.Until.UnixMilli(), 10)
	if v.Session != "" {
		return "session " + until + " " + v.Session
	}
	return "name " + until + " " + strconv.FormatInt(v.Before.UnixMilli(), 10) + " " + v.Name
}

func decodeRevocation(text string) (v session.Revocation, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	until, rest, _ := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(until, 10, 64)
	v.Until = time.UnixMilli(ms)
	switch kind {
	case "session":
		v.Session = rest
		return v, err == nil && rest != ""
	case "name":
		before, name, _ := strings.Cut(rest, " ")
		ms, err2 := strconv.ParseInt(before, 10, 64)
		v.Before, v.Name = time.UnixMilli(ms), name
		return v, err == nil && err2 == nil && name != ""
	}
	return v, false
}

var (
	revokeScript     = newScript("people_revoke")
	revokedScript    = newScript("people_revoked")
	addPersonScript  = newScript("people_add")
	listPeopleScript = newScript("people_list")
)

var _ session.Store = (*People)(nil)
