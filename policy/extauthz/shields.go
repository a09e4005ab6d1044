package extauthz

import (
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Config is one Shield, with either an address or a URL. Equal Configs are the same Shield.
type Config struct {
	Name    string // unique; also a metric label
	Address string // host:port of its gRPC server
	// of its HTTP form, the path included: http:// of its HTTP API, with the path: http://shield:9090/evaluate
	URL       string
	TLS       *tls.Config   // nil: cleartext for an address, the system's CAs for https
	Qualified bool          // the action's type is capability.tool rather than the tool's name alone
	Timeout   time.Duration // of one request, including the wait for a permit; 0: 500 ms
	OnFailure call.Verdict  // the decision without a verdict; see the package
	Cache     int           // maximum number of cached verdicts; 0: none
}

// Options of Shields.
type Options struct {
	Dial func(*Config) (Client, error) // required where there are shields; it must not wait

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default none
}

// Answer is Shield's verdict on a call, or its replacement after a failure.
type Answer struct {
	Verdict call.Verdict
	// Reason is for the approver: at most 500 bytes of printable UTF-8. It may quote arguments, and must
	// not be logged.
	Reason     string
	ActionHash string // from Shield: at most 128 bytes of printable UTF-8; "": none
	Cached     bool   // no request was sent for it
	Failed     bool   // Shield did not answer, and OnFailure applies
}

// Shields map capabilities to Shields. They are safe for concurrent use.
type Shields struct {
	opts  Options
	table atomic.Pointer[table]

	mu     sync.Mutex
	open   sync.WaitGroup // shields that have not been closed
	ctx    context.Context
	cancel context.CancelFunc
}

// table is immutable.
type table struct {
	byName       map[string]*shield
	byCapability map[string]*shield // by capability
}

// New returns Shields that check no call until Replace.
func New(o Options) *Shields {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Shields{opts: o}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.table.Store(&table{})
	return s
}

// Replace sets other shields, and maps each capability to the name of its shield. A shield with an
// unchanged Config keeps its connection and its verdicts; the connections of the others are closed
// after their calls. After an error nothing has changed.
func (s *Shields) Replace(configs []Config, of map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.table.Load()
	next := &table{byName: make(map[string]*shield, len(configs)), byCapability: make(map[string]*shield, len(of))}
	err := s.fill(next, configs, of, before)
	gone := before
	if err == nil {
		s.table.Store(next)
	} else {
		gone, next = next, before
	}
	for name, sh := range gone.byName {
		if next.byName[name] != sh {
			sh.retire()
		}
	}
	return err
}

// fill makes the shields of a table.
func (s *Shields) fill(next *table, configs []Config, of map[string]string, before *table) error {
	for _, c := range configs {
		if next.byName[c.Name] != nil {
			return fmt.Errorf("shield %s is configured twice", c.Name)
		}
		sh := before.byName[c.Name]
		if sh == nil || sh.cfg != c {
			var err error
			if sh, err = s.start(c, sh); err != nil {
				return err
			}
		}
		next.byName[c.Name] = sh
	}
	for capability, name := range of {
		if next.byCapability[capability] = next.byName[name]; next.byCapability[capability] == nil {
			return fmt.Errorf("capability %s: there is no shield %s", capability, name)
		}
	}
	return nil
}

// For reports whether a Shield checks the calls of a capability. It answers from memory.
func (s *Shields) For(capability string) bool { return s.table.Load().byCapability[capability] != nil }

// Check returns the verdict of the capability's Shield on a call that policy would allow or ask about.
// It waits until ctx ends. args, the JSON arguments, must not change afterwards. The caller takes the
// stricter of its own verdict and the Answer's. The refusal is set if the Answer blocks.
func (s *Shields) Check(ctx context.Context, c *call.Call, args []byte) (Answer, *call.Refusal) {
	for {
		sh := s.table.Load().byCapability[c.Capability]
		if sh == nil {
			return Answer{Verdict: call.Allow}, nil
		}
		if sh.acquire() {
			defer sh.release()
			return sh.check(ctx, c, args)
		}
		// The shield was replaced just now; the table has another one, or none.
	}
}

// Each yields the shields' names and counters, in the order of the names.
func (s *Shields) Each() iter.Seq2[string, Stats] {
	return func(yield func(string, Stats) bool) {
		byName := s.table.Load().byName
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			if !yield(name, byName[name].counters.snapshot()) {
				return
			}
		}
	}
}

// Close cancels all requests and waits until every connection is closed.
func (s *Shields) Close() {
	s.cancel()
	_ = s.Replace(nil, nil) // an empty configuration is valid
	s.open.Wait()
}
