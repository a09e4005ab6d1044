package registry

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// maxNamesInFlight bounds the concurrent lookups.
const maxNamesInFlight = 64

// Settings are the configuration. They may change (Set).
type Settings struct {
	Targets []Target
	Resolution
	Rules Rules // of registration
}

// Resolution is the resolution of dns:///… backends.
type Resolution struct {
	// The DNS server, ip:port. Default the system's.
	Server string `yaml:"server" kind:"dns_server"`
	// Interval of lookups, plus or minus a tenth. After a failed one the last addresses stay.
	Resolve time.Duration `yaml:"resolve" min:"10ms" max:"1h" default:"5s"`
}

// Options configure a Registry. The zero value works.
type Options struct {
	// Changed is called when Members has changed. It must not block: later changes wait for it.
	Changed func()
	Log     *slog.Logger // nil: discarded
	// Manifest returns the capability of a manifest's text, or an error. nil: no manifest is accepted.
	Manifest func(text string) (capability string, refusal *call.Refusal)
	// Poll is the interval of reads without a notification, plus or minus a tenth; default 2 s.
	Poll time.Duration
}

// publishInterval is the least time between two publications, which batches the answers of many names.
const publishInterval = 10 * time.Millisecond

// Registry holds the dynamic members of fleets. Its methods are safe for concurrent use.
type Registry struct {
	leases   Leases
	changed  func()
	log      *slog.Logger
	manifest func(string) (string, *call.Refusal)
	poll     time.Duration

	publishing      sync.Mutex // held while members are computed and published
	members         atomic.Pointer[[]Member]
	dirty           chan struct{} // signals that members may have changed
	settingsChanged chan struct{} // signals that settings changed
	notified        chan struct{} // signals that the leases may have changed
	permits         chan struct{} // permits of lookups
	firstRead       chan struct{} // closed after the first read of the leases, successful or not
	settled         chan struct{} // closed after the first lookup of all names
	demands         chan string   // capabilities with calls that wait for a backend
	counts          counts

	mu            sync.Mutex
	settings      Settings
	resolver      Resolver
	answers       map[Name][]endpoint
	wanted        map[Name]bool // of the settings; immutable, replaced as a whole
	resolved      map[Name]bool // of these, successful or not
	schedules     map[Name]*schedule
	allResolved   chan struct{} // closed when all names of the settings have been looked up
	registrations map[Key]*entry
	withdrawn     map[Key]int      // here, with the number of the write
	documents     map[Sum]document // that leases name
	writes        int              // of this replica, so far
	version       string           // of the last reading
	lastRead      time.Time        // when the store answered last
	silent        bool             // the store did not answer the last query
}

// New returns a Registry, which is empty before Run.
func New(leases Leases, settings Settings, o Options) *Registry {
	r := &Registry{
		leases: leases, changed: o.Changed, log: o.Log, manifest: o.Manifest, poll: o.Poll,
		dirty: make(chan struct{}, 1), settingsChanged: make(chan struct{}, 1), notified: make(chan struct{}, 1),
		permits: make(chan struct{}, maxNamesInFlight), firstRead: make(chan struct{}), settled: make(chan struct{}),
		demands: make(chan string, maxWanted), schedules: map[Name]*schedule{},
		answers: map[Name][]endpoint{}, resolved: map[Name]bool{}, allResolved: make(chan struct{}),
		registrations: map[Key]*entry{}, withdrawn: map[Key]int{}, documents: map[Sum]document{}, lastRead: time.Now(),
	}
	if r.changed == nil {
		r.changed = func() {}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.poll <= 0 {
		r.poll = 2 * time.Second
	}
	r.members.Store(new([]Member))
	r.Set(settings)
	return r
}

// Set replaces the settings. Remaining names and registrations keep their state.
func (r *Registry) Set(s Settings) {
	if s.Resolve <= 0 {
		s.Resolve = strictyaml.Defaults[Resolution]().Resolve
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resolver == nil || s.Server != r.settings.Server {
		r.resolver = NewResolver(s.Server)
	}
	r.settings = s
	wanted := map[Name]bool{}
	for _, t := range s.Targets {
		wanted[t.Name] = true
	}
	r.wanted = wanted
	maps.DeleteFunc(r.answers, func(n Name, _ []endpoint) bool { return !wanted[n] })
	maps.DeleteFunc(r.resolved, func(n Name, _ bool) bool { return !wanted[n] })
	former := r.allResolved
	r.allResolved = make(chan struct{})
	r.checkAsked()
	select {
	case <-former:
	default:
		close(former) // its waiters continue with the new one
	}
	r.version = "" // so that registrations are checked by the new rules
	signal.Wake(r.settingsChanged)
	signal.Wake(r.notified)
	signal.Wake(r.dirty)
}

// Run queries DNS and follows the leases until ctx ends. It returns after all its goroutines, and is called once.
func (r *Registry) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { r.resolve(ctx) })
	all.Go(func() { r.expedite(ctx) })
	all.Go(func() { r.syncLeases(ctx) })
	all.Go(func() {
		if r.Await(ctx) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.firstRead:
		}
		r.publish()
		close(r.settled)
	})
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.dirty:
			r.publish()
			backoff.Sleep(ctx, publishInterval)
		}
	}
	all.Wait()
}

// Settled is closed after the first lookup of every name and the first read of the leases, successful or not.
func (r *Registry) Settled() <-chan struct{} { return r.settled }

// Await returns when every name of the current settings has been looked up once, successfully or not, and Members has
// the result. The error is that of ctx.
func (r *Registry) Await(ctx context.Context) error {
	for {
		r.mu.Lock()
		all := r.allResolved
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-all:
		}
		r.mu.Lock()
		same := all == r.allResolved
		r.mu.Unlock()
		if same {
			r.publish()
			return nil
		}
	}
}

// Members returns all members of all fleets, sorted by capability and address, each
// pair of these once. It is not to be changed.
func (r *Registry) Members() []Member { return *r.members.Load() }

// publish makes the members that are known now the ones in force.
func (r *Registry) publish() {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	next := r.gather()
	if slices.Equal(next, r.Members()) {
		return
	}
	r.members.Store(&next)
	r.changed()
}

func (r *Registry) gather() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.dnsMembers(nil)
	for _, h := range r.registrations {
		if r.settings.Rules.serves(h.Capability) {
			next = h.members(next, r.effective(&h.Registration))
		}
	}
	return Merge(next)
}
