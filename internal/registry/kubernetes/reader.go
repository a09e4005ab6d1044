package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/registry"
)

// textKey is a key of the data of a ConfigMap.
type textKey struct {
	kubeapi.Key
	key string
}

// need is the part of a ConfigMap that Services use.
type need struct {
	version string          // of the ConfigMap
	keys    map[string]bool // of its data; true: the manifest is within the share of its namespace
}

// needs are those of all Services, by ConfigMap.
type needs map[kubeapi.Key]need

// add adds the text of a version of a ConfigMap.
func (n needs) add(text textKey, version string) {
	if n[text.Key].keys == nil {
		n[text.Key] = need{version, map[string]bool{}}
	}
	if _, has := n[text.Key].keys[text.key]; !has {
		n[text.Key].keys[text.key] = false
	}
}

// reading is the result of the last reading of a text, valid or not.
type reading struct {
	asked, version string // of the ConfigMap: the least one that was requested, and the one that was read
	capability     string
	problem        string // "": the manifest is valid
	seen           bool   // by last, and so by the needs that follow
	contents
}

// contents are a parsed text.
type contents struct {
	sum      registry.Sum
	size     int               // of the document in memory
	document registry.Document // nil: there is none, or it is not held
}

// attempts are the readings of a ConfigMap.
type attempts struct {
	turn     uint64 // of the last one
	failures int    // in a row
	err      error  // of the last one
	next     time.Time
}

// reader reads the texts that Services name, one ConfigMap after the other. Namespaces take turns, and so do the
// ConfigMaps of each. It holds the texts of only one ConfigMap at a time.
type reader struct {
	fetch func(ctx context.Context, of kubeapi.Key, version string) (*configMap, error) // nil: there is none
	parse func(text string) (registry.Document, *call.Refusal)
	done  func()                                 // called after each reading; must not block
	wait  backoff.Backoff                        // after failures
	pause func(took time.Duration) time.Duration // after a reading of a ConfigMap, before the next one of it
	wake  chan struct{}

	mu       sync.Mutex
	needs    needs
	readings map[textKey]reading
	attempts map[kubeapi.Key]*attempts
	served   map[string]uint64 // by namespace, the last turn
	turn     uint64            // of the last reading
	fresh    int               // size of the documents that the needs do not know
	finished chan struct{}     // closed and replaced by progress
}

// idleShare is the share of time that a ConfigMap which changes all the time is not read, for each that it is.
const idleShare = 4

// maxFresh bounds the documents that the reader holds before the shares of namespaces are computed again. More are not
// held, and are read again if they fit.
const maxFresh = registry.MaxManifests / 2

// newReader returns a reader without needs.
func newReader(c *kubeapi.Client, o *Options, done func()) *reader {
	wait := backoff.Backoff{First: cmp.Or(o.Mirrors.First, time.Second), Max: cmp.Or(o.Mirrors.Max, time.Minute)}
	return &reader{parse: o.ReadManifest, done: done, wake: make(chan struct{}, 1), wait: wait,
		pause:    func(took time.Duration) time.Duration { return min(max(idleShare*took, wait.First), wait.Max) },
		readings: map[textKey]reading{}, attempts: map[kubeapi.Key]*attempts{}, finished: make(chan struct{}),
		fetch: func(ctx context.Context, of kubeapi.Key, version string) (*configMap, error) {
			one := configMaps
			one.Namespace, one.Object = of.Namespace, of.Name
			return kubeapi.Find[configMap](ctx, c, one, version)
		}}
}

// want replaces the needs. Readings of other texts are forgotten, and so are the documents beyond the share. A document
// that was read while the needs were computed stays, as they do not know it.
func (r *reader) want(all needs) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.needs, r.fresh = all, 0
	maps.DeleteFunc(r.readings, func(text textKey, one reading) bool {
		fits, needed := all[text.Key].keys[text.key]
		switch {
		case one.document == nil || !needed:
		case !one.seen:
			r.fresh += one.size
		case !fits:
			one.document = nil
			r.readings[text] = one
		}
		return !needed
	})
	former := r.served
	r.served = map[string]uint64{}
	for of := range all {
		turn, known := former[of.Namespace]
		if !known { // it may have been here before
			turn = r.turn
		}
		r.served[of.Namespace] = turn
	}
	now := time.Now()
	maps.DeleteFunc(r.attempts, func(of kubeapi.Key, at *attempts) bool {
		return all[of].keys == nil && !at.next.After(now)
	})
	r.progress()
	signal.Wake(r.wake)
}

// progress wakes the callers of await. The caller holds r.mu.
func (r *reader) progress() {
	close(r.finished)
	r.finished = make(chan struct{})
}

// last returns the result of the last reading of a text. An error is that of the last attempt, if it has failed.
func (r *reader) last(text textKey) (one reading, known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.attempts[text.Key]; at != nil {
		err = at.err
	}
	if one, known = r.readings[text]; known && !one.seen {
		one.seen = true
		r.readings[text] = one
	}
	return one, known, err
}

// stale returns the keys of a ConfigMap whose text must be read. The caller holds r.mu.
func (r *reader) stale(of kubeapi.Key) (keys []string) {
	n := r.needs[of]
	for key, fits := range n.keys {
		one, known := r.readings[textKey{of, key}]
		old := one.version != n.version && one.asked != n.version
		if !known || old || fits && one.problem == "" && one.document == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// maxIdle is the longest wait of run without a signal.
const maxIdle = time.Hour

// run reads texts until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		if of, wait := r.next(time.Now()); wait > 0 {
			signal.Wait(ctx, r.wake, wait)
		} else {
			recovery.Round("kubernetes", func() { r.read(ctx, of) })
		}
	}
}

// next returns the ConfigMap whose turn it is, or the time until there may be one.
func (r *reader) next(now time.Time) (first kubeapi.Key, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = maxIdle
	for of := range r.needs {
		if len(r.stale(of)) == 0 {
			continue
		}
		if at := r.attempts[of]; at != nil && at.next.After(now) {
			wait = min(wait, at.next.Sub(now))
			continue
		}
		if first == (kubeapi.Key{}) || r.before(of, first) {
			first = of
		}
	}
	if first != (kubeapi.Key{}) {
		wait = 0
	}
	return first, wait
}

// before reports whether the turn of a is before that of b. The caller holds r.mu.
func (r *reader) before(a, b kubeapi.Key) bool {
	turn := func(of kubeapi.Key) uint64 {
		if at := r.attempts[of]; at != nil {
			return at.turn
		}
		return 0
	}
	return cmp.Or(cmp.Compare(r.served[a.Namespace], r.served[b.Namespace]), cmp.Compare(turn(a), turn(b)),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name)) < 0
}

// begin begins an attempt. Until it ends, it counts as a failure, so that a panic is not repeated at once.
func (r *reader) begin(of kubeapi.Key) (version string, keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.attempts[of]
	if at == nil {
		at = &attempts{}
		r.attempts[of] = at
	}
	r.turn++
	at.turn, r.served[of.Namespace] = r.turn, r.turn
	at.next = time.Now().Add(backoff.Jitter(backoff.After(at.failures, r.wait.First, r.wait.Max), 0.2))
	at.failures++
	return r.needs[of].version, r.stale(of)
}

// read reads the texts of a ConfigMap that have changed.
func (r *reader) read(ctx context.Context, of kubeapi.Key) {
	began := time.Now()
	version, keys := r.begin(of)
	object, err := r.fetch(ctx, of, version)
	if err == nil && object != nil {
		for _, key := range keys {
			if ctx.Err() != nil {
				return
			}
			one := r.parsed(object.Data[key], textKey{of, key})
			one.asked, one.version = version, object.ResourceVersion
			r.keep(textKey{of, key}, one)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.attempts[of]; at != nil {
		if at.err = err; err == nil && object != nil {
			*at = attempts{turn: at.turn, next: time.Now().Add(r.pause(time.Since(began)))}
		}
	}
	r.progress()
	r.done()
}

// keep records the result of a reading, if it is still needed.
func (r *reader) keep(text textKey, one reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, needed := r.needs[text.Key].keys[text.key]; !needed {
		return
	}
	if one.document != nil {
		if r.fresh += one.size; r.fresh > maxFresh {
			one.document = nil
		}
	}
	one.seen = false
	r.readings[text] = one
	r.progress()
	r.done()
}

// parsed returns what a text says. A text that is known is parsed again only for its document, if that fits and is not
// held.
func (r *reader) parsed(data string, text textKey) (one reading) {
	if data == "" {
		return reading{problem: fmt.Sprintf("has no key %.64q", text.key)}
	}
	one.sum = registry.NewManifest(data).Sum
	if same, known := r.known(one.sum, r.fits(text)); known {
		return same
	}
	document, refusal := r.parse(data)
	if refusal != nil {
		one.problem = "has no valid manifest: " + untrusted.Beginning(refusal.Message, problemLength)
		return one
	}
	one.document, one.capability, one.size = document, document.Capability(), document.Size()
	return one
}

// known returns a reading of the same text, if there is one with all that is needed.
func (r *reader) known(sum registry.Sum, withDocument bool) (same reading, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.readings {
		if one.sum != sum {
			continue
		}
		if one.problem != "" || one.document != nil {
			return one, true
		}
		if !withDocument {
			same, known = one, true
		}
	}
	return same, known
}

// fits reports whether the manifest of a text is within the share of its namespace.
func (r *reader) fits(text textKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.needs[text.Key].keys[text.key]
}

// await returns when the texts that are needed now and have never been read have been read or cannot be. The error is
// that of ctx.
func (r *reader) await(ctx context.Context) error {
	unread := r.unread(nil)
	for {
		r.mu.Lock()
		finished := r.finished
		r.mu.Unlock()
		if unread = r.unread(unread); len(unread) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-finished:
		}
	}
}

// unread returns the ConfigMaps that have never been read, among some or all that are needed.
func (r *reader) unread(among map[kubeapi.Key]bool) map[kubeapi.Key]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[kubeapi.Key]bool{}
	for of, n := range r.needs {
		if among != nil && !among[of] {
			continue
		}
		for key := range n.keys {
			at := r.attempts[of]
			if _, known := r.readings[textKey{of, key}]; !known && (at == nil || at.err == nil) {
				found[of] = true
			}
		}
	}
	return found
}
