package approvals

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/broadcast"
	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
)

// Rules stores the answers that apply always.
type Rules interface {
	Set(ctx context.Context, r policy.Rule) error
}

// Options of a Service. The zero value is usable.
type Options struct {
	Rules Rules // nil: none, and no answer can apply always
	// of 32 bytes; the first one encrypts arguments, all decrypt; none: only a preview is stored
	Keys [][]byte
	// SettingsKeys hash configurations, which contain secrets, some of few bits: a hash without a key would reveal
	// these to readers of the store. Default: of this process alone.
	SettingsKeys *sharedkey.Keys
	// Time to answer, and then to make the call.
	TTL time.Duration `yaml:"ttl" min:"1s" max:"24h" default:"10m"`
	// Validity of an answer for a session.
	SessionTTL time.Duration `yaml:"session_ttl" min:"1s" max:"720h" default:"1h"`

	MaxOpen int // open approvals of a tenant; default 10,000
	// bytes of arguments that are stored whole; a call with longer ones cannot be approved; default 1 MiB
	MaxArgs         int
	Sessions        int           // cached answers for sessions; default 10,000
	SessionCacheTTL time.Duration // lifetime of a cached answer; default 30 s
	MaxWaiting      int           // concurrent waits, watched approvals and readers of events; default 10,000

	// Answered is called for each approval that was answered at this replica. nil: nothing is.
	Answered func(*Approval)
	// Current returns the current hash of a tool, from memory. nil: unknown.
	Current func(capability, tool string) toolschema.Hash
	// Secrets returns what the schema of a tool with this hash says of secrets, from memory. It returns nil for an
	// unknown schema: names say then what is masked. nil: no schema is known.
	Secrets func(capability, tool string, schema toolschema.Hash) *toolschema.Secrets
	Now     func() time.Time // default time.Now
	// Jitter returns a random duration below its argument; default rand.N.
	Jitter func(time.Duration) time.Duration
}

func (o *Options) setDefaults() {
	strictyaml.Fill(o)
	o.SessionCacheTTL = cmp.Or(o.SessionCacheTTL, 30*time.Second)
	for n, standard := range map[*int]int{
		&o.MaxOpen: 10_000, &o.MaxArgs: 1 << 20, &o.Sessions: 10_000, &o.MaxWaiting: 10_000,
	} {
		if *n == 0 {
			*n = standard
		}
	}
	if o.Secrets == nil {
		o.Secrets = func(string, string, toolschema.Hash) *toolschema.Secrets { return nil }
	}
	if o.SettingsKeys == nil {
		o.SettingsKeys = sharedkey.New(nil, nil).Keys("configurations")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = mathrand.N[time.Duration]
	}
}

// Service manages approvals in one replica. It is safe for concurrent use.
type Service struct {
	store       Store
	opts        Options
	masker      *masker
	sealer      *sealer
	sessions    *sessions
	waiters     *waiters
	watches     watches
	feeds       feeds
	listeners   broadcast.Feed[*sharedNotification] // all tenants' events
	counters    counters
	waiting     atomic.Int64
	answerRules atomic.Pointer[[]AnswerRule]
	publicURL   atomic.Pointer[string] // without a final slash; nil or "": no links
}

// New returns a Service, or an error for malformed keys.
func New(store Store, o Options) (*Service, error) {
	o.setDefaults()
	sealer, err := newSealer(o.Keys)
	if err != nil {
		return nil, err
	}
	return &Service{store: store, opts: o, masker: newMasker(), sealer: sealer,
		sessions: newSessions(o.Sessions, o.Now), waiters: newWaiters(o.MaxWaiting),
		watches: watches{all: map[waitKey]*watch{}}}, nil
}

// Run watches the store until ctx ends. Without it answers are noticed up to two seconds later, and
// changes of answers for sessions up to Options.SessionCacheTTL later.
func (k *Service) Run(ctx context.Context) {
	k.store.Watch(ctx, func(n Notification) {
		if n.Session != nil {
			k.sessions.invalidate(n.Tenant, n.Session)
		}
		k.waiters.notify(waitKey{n.Tenant, ""})
		k.listeners.Send(&sharedNotification{Notification: n})
		if n.Kind != EventCreated {
			k.waiters.notify(waitKey{n.Tenant, n.ID})
		}
	}, func() {
		k.sessions.invalidateAll()
		k.waiters.notifyAll()
		k.listeners.Miss()
	})
}

// Create returns the open approval of the same call, or creates one. granted says that the call may run
// now, because of an answer for its session. The approval then has only its id and binding.
//
// It refuses denied calls while the denial lasts (APPROVAL_DENIED), arguments that are not JSON
// (ARGUMENTS_INVALID) or ambiguous (AMBIGUOUS_ARGUMENTS), such a configuration (CONFIG_INVALID,
// AMBIGUOUS_ARGUMENTS), one open approval too many (APPROVALS_FULL), and every call while the store is
// unavailable (APPROVALS_UNAVAILABLE).
func (k *Service) Create(ctx context.Context, r *Request) (a Approval, granted bool, refusal *call.Refusal) {
	session := sessionSum(r)
	var stamp cache.Stamp
	if session != nil {
		var known sessionAnswer
		if known, stamp = k.sessions.get(r.Tenant, session); known.state != 0 {
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
		k.sessions.put(r.Tenant, session, held, min(asked.Left, k.opts.SessionCacheTTL), stamp)
		return k.sessionResult(r, held)
	case asked.New:
		k.counters.asked.Add(1)
	}
	a = k.view(&asked.Record)
	switch a.State {
	case Pending, Approved:
		return a, false, nil
	case Denied:
		return a, false, k.count(refusedRepeat(&a))
	}
	return a, false, k.count(refusedUnavailable) // invalid answer of the store
}

// sessionResult applies the answer for a session to a call.
func (k *Service) sessionResult(r *Request, held sessionAnswer) (a Approval, granted bool, refusal *call.Refusal) {
	if held.state != Approved {
		return a, false, k.count(refusedDenied("calls of this tool were denied for this session", held.id,
			held.comment))
	}
	k.counters.granted.Add(1)
	return Approval{ID: held.id, Binding: newBinding(r, nil), State: Approved}, true, nil
}

// commentOf returns the approver's comment on an approval for callers; "" if it is not available.
func (k *Service) commentOf(ctx context.Context, tenant, id string) string {
	r, err := k.store.Get(ctx, tenant, id)
	if err != nil {
		return ""
	}
	return readable(r.Comment, maxComment)
}

// prepare parses a call, and makes its draft.
func (k *Service) prepare(ctx context.Context, r *Request, session *Sum) (d *Draft, refusal *call.Refusal) {
	refusal = k.withArguments(ctx, r, func(args *arguments) { d = k.newDraft(r, args, session) })
	return d, refusal
}

// withArguments calls f with the arguments of a call while the memory for them is acquired.
func (k *Service) withArguments(ctx context.Context, r *Request, f func(*arguments)) *call.Refusal {
	done, refusal := k.acquire(ctx, r)
	if refusal != nil {
		return refusal
	}
	defer done()
	args, refusal := k.parse(ctx, r)
	if refusal != nil {
		return refusal
	}
	f(&args)
	return nil
}

// acquire waits for a permit to parse a call.
func (k *Service) acquire(ctx context.Context, r *Request) (done func(), refusal *call.Refusal) {
	if r.Acquire == nil {
		return func() {}, nil
	}
	return r.Acquire(ctx)
}

// parse parses the parts of a call to which an approval is bound.
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

// newBinding copies all strings: a request may be a view of a connection's buffer.
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
		Description: readable(r.Description, maxText), RequestID: readable(r.RequestID, maxName),
		Change: readable(r.Change, maxText),
		Trace:  readable(r.Trace, maxName),
		Level:  readable(r.Level, maxName), Why: readable(r.Why, maxText),
	}
	d.CallSum = d.sum()
	rule := k.AnswerRule(r.Tenant, r.Capability, r.Tool)
	d.Escalates = rule.Escalate.After
	of, secrets := bounds{}, k.opts.Secrets(r.Capability, r.Tool, r.Schema)
	if d.Whole = len(args.text) <= k.opts.MaxArgs; !d.Whole {
		of = excerpt()
	}
	switch {
	case !k.sealer.On():
		d.Preview, _ = k.masker.preview(args.value, secrets, of)
		d.Value = k.masker.value(args.value, secrets, of)
	case d.Whole:
		d.Sealed = k.sealer.seal(&d.Approval, sealedArgs, args.text)
	default:
		text, _ := k.masker.preview(args.value, secrets, of)
		d.Sealed = k.sealer.seal(&d.Approval, sealedPreview, []byte(text))
	}
	return d
}

// minTTL is the least time for an answer.
const minTTL = time.Second

// view converts a record to the approver's view in lists, events and notices.
func (k *Service) view(r *Record) Approval { return k.viewWithin(r, excerpt()) }

// viewWithin converts a record to the approver's view.
func (k *Service) viewWithin(r *Record, b bounds) Approval {
	a := r.Approval
	a.Link = k.link(&a)
	a.Terms = k.terms(&a)
	if len(r.Sealed) == 0 {
		a.shorten(b)
		return a
	}
	what, text, err := k.sealer.open(&a, r.Sealed)
	if err == nil && what == sealedPreview {
		a.Preview, a.Excerpt, a.Whole = string(text), true, false
		return a
	}
	args, unreadable := readArguments(text)
	if err = errors.Join(err, unreadable); err != nil || args.hash != a.ArgsHash {
		a.Unreadable = true
		return a
	}
	var whole bool
	secrets := k.opts.Secrets(a.Capability, a.Tool, a.Schema)
	a.Preview, whole = k.masker.preview(args.value, secrets, b)
	a.Value, a.Excerpt, a.Whole = k.masker.value(args.value, secrets, b), !whole, true
	return a
}

// shorten shortens the stored view of an approval if its arguments are not stored.
func (a *Approval) shorten(b bounds) {
	a.Excerpt = !a.Whole
	if b.all == 0 || len(a.Preview) <= b.all {
		return
	}
	text := untrusted.Truncate(a.Preview, b.all)
	a.Preview, a.Value, a.Excerpt = text[:strings.LastIndexByte(text, '\n')+1]+moreText, "", true
}

const idPrefix = "apr_"

// newID returns an id of 130 random bits.
func newID() string { return idPrefix + rand.Text() }

// isID reports whether a text has the form of an id. Others are not looked up.
func isID(s string) bool {
	text, ok := strings.CutPrefix(s, idPrefix)
	return ok && len(text) == 26 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	})
}
