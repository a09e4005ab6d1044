package redisstore_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// patience is the longest wait for an event that should come at once.
const patience = 30 * time.Second

// shared holds the servers that the tests of this package share: each kind is started when a test first needs
// it, and ends with the last test.
type shared struct {
	main  redistest.Main
	urls  map[string]func() string // by kind
	tests atomic.Int64             // for unique prefixes
	keys  *keyTable
}

var servers = newShared() //nolint:gochecknoglobals // shared by TestMain and the tests

func newShared() *shared {
	s := &shared{keys: readKeyTable()}
	s.urls = map[string]func() string{
		"server": sync.OnceValue(func() string {
			server := redistest.Start(&s.main)
			return s.asGateway(server.URL(), func(command ...any) { server.Do(command...) })
		}),
		"sentinel": sync.OnceValue(func() string {
			sentinel := redistest.StartSentinel(&s.main)
			return s.asGateway(sentinel.URL(), func(command ...any) { sentinel.Do(&s.main, command...) })
		}),
		"cluster": sync.OnceValue(func() string {
			cluster := redistest.StartCluster(&s.main)
			return s.asGateway(cluster.URL(), func(command ...any) { cluster.Do(&s.main, command...) })
		}),
	}
	return s
}

// asGateway creates the user of deploy/redis/compose.acl, which has the fewest permissions, and returns its
// URL. So the tests prove that these permissions suffice for the stores. The tests themselves read and disturb
// keys with a few commands that no store sends.
func (s *shared) asGateway(url string, do func(command ...any)) string {
	do(append(setUsers(&s.main, "compose.acl")["capgate"], "+keys", "+copy", "+lpush", "+script|flush")...)
	return as(url, "capgate", "@PASSWORD@")
}

// setUsers returns the commands that create the users of a file of deploy/redis, by name.
func setUsers(t redistest.TB, file string) map[string][]any {
	t.Helper()
	text, err := os.ReadFile("../../deploy/redis/" + file)
	if err != nil {
		t.Fatalf("got %v", err)
	}
	users := map[string][]any{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		command := []any{"ACL", "SETUSER"}
		for _, w := range words[1:] {
			command = append(command, w)
		}
		users[words[1]] = command
	}
	return users
}

// as adds a user to a URL.
func as(address, user, password string) string {
	return strings.Replace(address, "://", "://"+user+":"+url.QueryEscape(password)+"@", 1)
}

func TestMain(m *testing.M) {
	status := m.Run()
	servers.main.Close()
	if unused := servers.keys.unused(); status == 0 && wholePackage() && len(unused) > 0 {
		fmt.Fprintf(os.Stderr, "no test has written the keys of these rows of keys.md: %q\n", unused)
		status = 1
	}
	os.Exit(status)
}

// onEveryRedis runs a test on every kind of Redis. open returns the Store of one more replica; all Stores of one test
// share data that no other test sees.
//
// Timeouts are long, so that Redis does not seem unavailable on a busy machine. Faults have tests and servers of
// their own.
//
// One of the servers has store keys: only records of other origin may make a difference there.
func onEveryRedis(t *testing.T, test func(t *testing.T, open func() *redisstore.Store)) {
	t.Parallel()
	onEveryRedisWith(t, map[string][][]byte{"server": {storeKey}}, test)
}

// runContract runs the tests of an interface on every kind of Redis. of returns the implementation of a Store.
func runContract[S any](t *testing.T, suite contract.Suite[S], of func(*redisstore.Store) S) {
	for promise, test := range suite {
		t.Run(promise, func(t *testing.T) {
			onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
				test(t, func() S { return of(open()) })
			})
		})
	}
}

// storeKey signs records.
var storeKey = []byte("a key that signs 32 bytes or more")

// onEveryRedisWith is onEveryRedis with store keys by the kind of Redis.
func onEveryRedisWith(t *testing.T, keys map[string][][]byte, test func(t *testing.T, open func() *redisstore.Store)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		first := open(t, redisstore.Config{})
		servers.keys.compare(t, first, "cg:")
		given := false
		test(t, func() *redisstore.Store {
			if !given {
				given = true
				return first
			}
			s, err := redisstore.OpenBeside(first, patient(redisstore.Config{}))
			return opened(t, s, err)
		})
	})
	for name, url := range servers.urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := fmt.Sprintf("cg:test-%d:", servers.tests.Add(1))
			servers.keys.compare(t, open(t, redisstore.Config{URL: url(), Prefix: prefix}), prefix)
			test(t, func() *redisstore.Store {
				return open(t, redisstore.Config{URL: url(), Prefix: prefix, StoreKeys: keys[name]})
			})
		})
	}
}

// open opens a Store, and closes it at the end of the test.
func open(t *testing.T, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(patient(cfg))
	return opened(t, s, err)
}

func patient(cfg redisstore.Config) redisstore.Config {
	if cfg.Timeout == 0 {
		cfg.Timeout, cfg.Dial = patience, patience
	}
	return cfg
}

func opened(t *testing.T, s *redisstore.Store, err error) *redisstore.Store {
	t.Helper()
	check.Must(t, err)
	t.Cleanup(s.Close)
	return s
}
