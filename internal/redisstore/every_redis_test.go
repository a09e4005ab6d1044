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
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// patience is how long a test waits for what should come at once.
const patience = time.Minute

// shared are the servers that the tests of this package have in common: each kind is
// started when a test first needs it, and ends with the last.
type shared struct {
	main  redistest.Main
	urls  map[string]func() string // by kind
	tests atomic.Int64             // for a prefix that no other test has
}

var servers = newShared() //nolint:gochecknoglobals // TestMain and the tests have nothing else in common

func newShared() *shared {
	s := &shared{}
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

// asGateway gives servers the user of deploy/redis/compose.acl, who may do least, and returns the URL for it: what the
// tests of this package do with their stores is what that user has to be allowed. The tests themselves look at keys, and
// disturb, with a few commands that no store sends.
func (s *shared) asGateway(url string, do func(command ...any)) string {
	do(append(setUsers(&s.main, "compose.acl")["capgate"], "+keys", "+copy", "+lpush", "+script|flush")...)
	return as(url, "capgate", "@PASSWORD@")
}

// setUsers are the commands that make the users of a file of deploy/redis, by their names.
func setUsers(t redistest.TB, file string) map[string][]any {
	t.Helper()
	text, err := os.ReadFile("../../deploy/redis/" + file)
	if err != nil {
		t.Fatalf("%v", err)
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

// as is a URL with a user in it.
func as(address, user, password string) string {
	return strings.Replace(address, "://", "://"+user+":"+url.QueryEscape(password)+"@", 1)
}

func TestMain(m *testing.M) {
	status := m.Run()
	servers.main.Close()
	os.Exit(status)
}

// onEveryRedis runs a test on every kind of Redis. What open returns is one replica's
// Store; all of one test see the same data, which nobody else does.
//
// Timeouts are long, so that no busy machine makes Redis look unavailable. Faults have tests of
// their own, with servers of their own.
//
// One of them has keys that sign records: nothing but what comes into Redis otherwise may depend on that.
func onEveryRedis(t *testing.T, test func(t *testing.T, open func() *redisstore.Store)) {
	t.Parallel()
	onEveryRedisWith(t, map[string][][]byte{"server": {storeKey}}, test)
}

// storeKey signs records.
var storeKey = []byte("a key that signs 32 bytes or more")

// onEveryRedisWith is onEveryRedis with store keys by the kind of Redis.
func onEveryRedisWith(t *testing.T, keys map[string][][]byte, test func(t *testing.T, open func() *redisstore.Store)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		first := open(t, redisstore.Config{})
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
			test(t, func() *redisstore.Store {
				return open(t, redisstore.Config{URL: url(), Prefix: prefix, StoreKeys: keys[name]})
			})
		})
	}
}

// open opens a Store that ends with the test.
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
