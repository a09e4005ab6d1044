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

// Config is one Shield. It has either an address or a URL. Two that are equal are one Shield.
type Config struct {
	Name      string        // unique; names metrics too
	Address   string        // host:port of its gRPC server
	URL       string        // of its HTTP form, the path included: http://shield:9090/evaluate
	TLS       *tls.Config   // nil: cleartext for an address, the system's authorities for https
	Timeout   time.Duration // of one question, waiting for a place included; 0: 500 ms
	OnFailure call.Verdict  // what becomes of a call that it does not judge; see the package
	Cache     int           // verdicts kept; 0: none
}

// Options of Shields. The zero value is usable.
type Options struct {
	Now func() time.Time // default time.Now
	Log *slog.Logger     // default none
}

// Answer is what Shield says of a call, or what stands for it.
type Answer struct {
	Verdict    call.Verdict
	Reason     string // for the person who is asked: at most 500 bytes of printable UTF-8. It may quote arguments: not for logs
	ActionHash string // as Shield gave it: at most 128 bytes of printable UTF-8; "" where it gave none
	Cached     bool   // Shield was not asked for it
	Failed     bool   // Shield did not answer, and this is what OnFailure says
}

// Shields know which Shield judges the calls of which capability. They are safe for
// concurrent use.
type Shields struct {
	opts  Options
	table atomic.Pointer[table]

	replacing sync.Mutex
	open      sync.WaitGroup // shields that have not been closed
	ctx       context.Context
	end       context.CancelFunc
}

// table is immutable.
type table struct {
	byName map[string]*shield
	of     map[string]*shield // by capability
}

// New returns Shields that judge nothing until Replace.
func New(o Options) *Shields {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Shields{opts: o}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.table.Store(&table{})
	return s
}

// Replace puts other shields in force, and says which of them, by name, judges the calls of
// which capability. One whose Config did not change goes on with its connection and its
// verdicts; the connections of the others are closed after their calls. After an error
// nothing has changed.
func (s *Shields) Replace(configs []Config, of map[string]string) error {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	before := s.table.Load()
	next := &table{byName: make(map[string]*shield, len(configs)), of: make(map[string]*shield, len(of))}
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

func (s *Shields) fill(next *table, configs []Config, of map[string]string, before *table) error {
	for _, c := range configs {
		if next.byName[c.Name] != nil {
			return fmt.Errorf("shield %s is given twice", c.Name)
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
		if next.of[capability] = next.byName[name]; next.of[capability] == nil {
			return fmt.Errorf("capability %s: there is no shield %s", capability, name)
		}
	}
	return nil
}

// For says whether calls of a capability are judged by a Shield. It answers from memory.
func (s *Shields) For(capability string) bool { return s.table.Load().of[capability] != nil }

// Judge finds out what the capability's Shield says of a call of a tool that policy would
// allow or ask about. It waits until ctx ends, and args, the JSON of its arguments, must not change after
// it. The caller takes the stricter of its own verdict and the Answer's. The refusal is not
// nil where the call must not go on, which is where the Answer blocks.
func (s *Shields) Judge(ctx context.Context, c *call.Call, args []byte) (Answer, *call.Refusal) {
	for {
		sh := s.table.Load().of[c.Capability]
		if sh == nil {
			return Answer{Verdict: call.Allow}, nil
		}
		if sh.hold() {
			defer sh.release()
			return sh.judge(ctx, c, args)
		}
		// It went away just now, and the table has another one, or none.
	}
}

// All are the names of the shields and what they did, in the order of their names.
func (s *Shields) All() iter.Seq2[string, Stats] {
	return func(yield func(string, Stats) bool) {
		byName := s.table.Load().byName
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			if !yield(name, byName[name].counted.snapshot()) {
				return
			}
		}
	}
}

// Close ends all questions and waits until every connection is closed.
func (s *Shields) Close() {
	s.end()
	_ = s.Replace(nil, nil) // nothing can be wrong with nothing
	s.open.Wait()
}
