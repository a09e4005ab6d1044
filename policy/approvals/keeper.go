package approvals

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
)

// Rules are where an answer that holds always is written to.
type Rules interface {
	Set(ctx context.Context, r policy.Rule) error
}

// Options of a Keeper. The zero value is usable.
type Options struct {
	Rules           Rules         // nil: there are none, so that no answer can hold always
	Keys            [][]byte      // of 32 bytes; the first encrypts arguments, all decrypt; none: only a preview is kept
	TTL             time.Duration // how long there is to answer, then to use, and how long a denial holds; default 10 min
	SessionTTL      time.Duration // how long an answer for a session holds; default 1 h
	MaxOpen         int           // approvals of a tenant that are open at once; default 10,000
	MaxArgs         int           // bytes of arguments that are kept; of longer ones only a preview is. Default 64 KiB
	Sessions        int           // answers for sessions that are remembered in memory; default 10,000
	SessionCacheTTL time.Duration // for how long they are, at most; default 30 s
	MaxWaiting      int           // calls that wait at once, and approvals waited for and readers of events; default 10,000

	// Current is what a tool is known by now, from memory. nil: that is not known.
	Current func(capability, tool string) toolschema.Hash
	Now     func() time.Time // default time.Now
}

func (o *Options) setDefaults() {
	for d, standard := range map[*time.Duration]time.Duration{&o.TTL: 10 * time.Minute, &o.SessionTTL: time.Hour, &o.SessionCacheTTL: 30 * time.Second} {
		if *d == 0 {
			*d = standard
		}
	}
	for n, standard := range map[*int]int{&o.MaxOpen: 10_000, &o.MaxArgs: 64 << 10, &o.Sessions: 10_000, &o.MaxWaiting: 10_000} {
		if *n == 0 {
			*n = standard
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Service is approvals as one replica sees them. It is safe for concurrent use.
type Service struct {
	store        Store
	opts         Options
	masker       *masker
	sealer       *sealer
	sessions     *sessions
	waiters      *waiters
	watches      watches
	listeners    listeners
	counters     counters
	waiting      atomic.Int64
	settingsKeys settingsKeys
}

// New fails for keys that are none.
func New(store Store, o Options) (*Service, error) {
	o.setDefaults()
	sealer, err := newSealer(o.Keys)
	if err != nil {
		return nil, err
	}
	sessions, err := newSessions(o.Sessions, o.Now)
	if err != nil {
		return nil, fmt.Errorf("sessions of approvals: %w", err)
	}
	return &Service{store: store, opts: o, masker: newMasker(), sealer: sealer, sessions: sessions, waiters: newWaiters(o.MaxWaiting),
		watches: watches{all: map[waitKey]*watch{}}, settingsKeys: settingsKeys{own: derived(o.Keys)}}, nil
}

// Run follows the store until ctx ends. Without it answers are seen up to two seconds, and
// changes of what is remembered for sessions up to Options.Fresh later.
func (k *Service) Run(ctx context.Context) {
	k.store.Watch(ctx, func(n Notification) {
		if n.Session != nil {
			k.sessions.invalidate(sessionKey{n.Tenant, *n.Session})
		}
		k.waiters.notify(waitKey{n.Tenant, ""})
		k.listeners.notify(n)
		if n.Kind != EventCreated {
			k.waiters.notify(waitKey{n.Tenant, n.ID})
		}
	}, func() {
		k.sessions.invalidateAll()
		k.waiters.notifyAll()
		k.listeners.notifyLost()
	})
}

// Create finds the open approval of the same call, or makes one. granted says that the call
// may run now, because of what somebody answered for its session; of the approval only
// its id and words are known then.
//
// It refuses what was denied, for as long as that holds (APPROVAL_DENIED), arguments that
// are no JSON (ARGUMENTS_INVALID) or that readers understand differently (AMBIGUOUS_ARGUMENTS),
// a configuration that is so (CONFIG_INVALID, AMBIGUOUS_ARGUMENTS), one open approval too many (APPROVALS_FULL), and
// everything while the store is away (APPROVALS_UNAVAILABLE).
func (k *Service) Create(ctx context.Context, r *Request) (a Approval, granted bool, refusal *call.Refusal) {
	session := sessionSum(r)
	var epoch uint64
	if session != nil {
		var known sessionAnswer
		if known, epoch = k.sessions.get(sessionKey{r.Tenant, *session}); known.state != 0 {
			return k.sessionResult(r, known)
		}
	}
	draft, refusal := k.prepare(ctx, r, session)
	if refusal != nil {
		return a, false, refusal
	}
	asked, err := k.store.Create(ctx, draft)
	switch {
	case err != nil:
		return a, false, k.count(refusedUnavailable)
	case asked.LimitReached:
		return a, false, k.count(refusedFull)
	case asked.Remembered != 0 && session != nil:
		held := sessionAnswer{state: asked.Remembered, id: asked.ID}
		if held.state == Denied {
			held.comment = k.commentOf(ctx, r.Tenant, held.id)
		}
		k.sessions.put(sessionKey{strings.Clone(r.Tenant), *session}, held, min(asked.Left, k.opts.SessionCacheTTL), epoch)
		return k.sessionResult(r, held)
	case asked.New:
		k.counters.asked.Add(1)
	}
	a = k.view(&asked.Record)
	switch a.State {
	case Pending, Approved:
		return a, false, nil
	case Denied:
		return a, false, k.count(refusedDenied("this call was denied", a.ID, a.Comment))
	}
	return a, false, k.count(refusedUnavailable) // a store must not say that
}

// sessionResult is what becomes of a call whose session has an answer.
func (k *Service) sessionResult(r *Request, held sessionAnswer) (a Approval, granted bool, refusal *call.Refusal) {
	if held.state != Approved {
		return a, false, k.count(refusedDenied("calls of this tool were denied for this session", held.id, held.comment))
	}
	k.counters.granted.Add(1)
	return Approval{ID: held.id, Binding: newBinding(r, nil), State: Approved}, true, nil
}

// commentOf is what the approver wrote of an approval, as far as a caller is told, "" where that is not known any more.
func (k *Service) commentOf(ctx context.Context, tenant, id string) string {
	r, err := k.store.Get(ctx, tenant, id)
	if err != nil {
		return ""
	}
	return readable(r.Comment, maxComment)
}

// prepare reads a call, and makes of it what is stored.
func (k *Service) prepare(ctx context.Context, r *Request, session *Sum) (*Draft, *call.Refusal) {
	done, refusal := k.acquire(ctx, r)
	if refusal != nil {
		return nil, refusal
	}
	defer done()
	args, refusal := k.parse(ctx, r)
	if refusal != nil {
		return nil, refusal
	}
	return k.newDraft(r, &args, session), nil
}

// acquire waits until a call may be read.
func (k *Service) acquire(ctx context.Context, r *Request) (done func(), refusal *call.Refusal) {
	if r.Acquire == nil {
		return func() {}, nil
	}
	return r.Acquire(ctx)
}

// parse reads what binds an approval.
func (k *Service) parse(ctx context.Context, r *Request) (arguments, *call.Refusal) {
	for _, name := range []string{r.Tenant, r.User, r.Agent, r.Capability, r.Tool, r.Session, r.Thread} {
		if len(name) > maxName {
			return arguments{}, k.count(refusedNames)
		}
	}
	args, err := readArguments(r.Args)
	if err != nil {
		return args, k.count(refusedArguments(err))
	}
	if refusal := k.readSettings(ctx, r); refusal != nil {
		return args, k.count(refusal)
	}
	return args, nil
}

// newBinding owns its strings: a request may lie in a connection's buffer.
func newBinding(r *Request, args *arguments) Binding {
	w := Binding{Tenant: strings.Clone(r.Tenant), User: strings.Clone(r.User), Agent: strings.Clone(r.Agent),
		Capability: strings.Clone(r.Capability), Tool: strings.Clone(r.Tool), Schema: r.Schema,
		Session: strings.Clone(r.Session), Thread: strings.Clone(r.Thread)}
	if len(r.Settings) > 0 {
		w.Settings = r.Settings[0]
	}
	if args != nil {
		w.ArgsHash = args.hash
	}
	return w
}

func (k *Service) newDraft(r *Request, args *arguments, session *Sum) *Draft {
	d := &Draft{SessionSum: session, TTL: k.opts.TTL, MaxOpen: k.opts.MaxOpen}
	if !r.Until.IsZero() {
		d.TTL = max(min(d.TTL, r.Until.Sub(k.opts.Now())), minTTL)
	}
	d.Approval = Approval{
		ID: newID(), Binding: newBinding(r, args),
		Description: readable(r.Description, maxText), RequestID: readable(r.RequestID, maxName), Trace: readable(r.Trace, maxName),
		Level: readable(r.Level, maxName), Why: readable(r.Why, maxText),
	}
	d.CallSum = d.sum()
	switch {
	case !k.sealer.On():
		d.Preview = k.masker.preview(args.value)
	case len(args.text) <= k.opts.MaxArgs:
		d.Sealed = k.sealer.seal(&d.Approval, sealedArgs, args.text)
	default:
		d.Sealed = k.sealer.seal(&d.Approval, sealedPreview, []byte(k.masker.preview(args.value)))
	}
	return d
}

// minTTL is how long there is to answer at least, whoever asks.
const minTTL = time.Second

// view is a record as a person gets to see it.
func (k *Service) view(r *Record) Approval {
	a := r.Approval
	if len(r.Sealed) == 0 {
		return a
	}
	what, text, err := k.sealer.open(&a, r.Sealed)
	if err == nil && what == sealedPreview {
		a.Preview = string(text)
		return a
	}
	args, unreadable := readArguments(text)
	if err = errors.Join(err, unreadable); err != nil || args.hash != a.ArgsHash {
		a.Unreadable = true
		return a
	}
	a.Preview = k.masker.preview(args.value)
	return a
}

const idPrefix = "apr_"

// newID draws 130 random bits.
func newID() string { return idPrefix + rand.Text() }

// isID says whether a text could be an approval's id. What could not is not looked for.
func isID(s string) bool {
	text, ok := strings.CutPrefix(s, idPrefix)
	return ok && len(text) == 26 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	})
}
