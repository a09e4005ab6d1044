package extauthz

import (
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
)

// Config is one Shield, with either an address or a URL. Equal Configs are the same Shield.
type Config struct {
	// The shield's name in fleets; not none.
	Name string `yaml:"name" kind:"shield" required:"" unique:"true"`
	// host:port of its gRPC server; or url.
	Address string `yaml:"address" kind:"shield_address"`
	// URL of its HTTP form, the path included, as in http://shield:9090/evaluate.
	URL string `yaml:"url" kind:"shield_url"`
	// TLS to it. Default cleartext for an address, the system's authorities for https.
	Files tlsfiles.Client `yaml:"tls"`
	// Type of the action that it judges: tool is the tool's name alone; capability.tool tells tools of the same name
	// apart. Rules of the published HTTP server see the type only.
	Qualified bool `yaml:"action" enum:"tool,capability.tool" default:"tool"`
	// Timeout of a request.
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"30s" default:"500ms"`
	// Verdict about calls while it does not respond. An invalid response never allows.
	OnFailure call.Verdict `yaml:"on_failure" default:"block"`

	TLS   *tls.Config // of Files; nil: cleartext for an address, the system's CAs for https
	Cache int         // maximum number of cached verdicts; 0: none
}

// Check checks that there is one address.
func (c *Config) Check(at strictyaml.At) {
	switch {
	case at.Has("address") && at.Has("url"):
		at.Fail("url", "address is set, too; set only one of them")
	case !at.Has("address") && !at.Has("url"):
		at.Missing("address", "required: host:port of its gRPC server; or the url of its HTTP form")
	}
	if c.Files.Enabled && strings.HasPrefix(c.URL, "http:") {
		at.Fail("tls", "the url is not https")
	}
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
			return fmt.Errorf("capability %s: the shield %s does not exist", capability, name)
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
