package redisstore_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// keyTable compares the keys that tests write with the table of keys.
type keyTable struct {
	rows  []redisstore.Row
	names []*regexp.Regexp // by row

	mu      sync.Mutex
	written map[string]bool // by pattern; with the type that the row says
}

// readKeyTable reads the table.
func readKeyTable() *keyTable {
	k := &keyTable{written: map[string]bool{}}
	text, _ := os.ReadFile("keys.md") // without it, no key has a row
	k.rows = redisstore.Rows(string(text))
	for _, r := range k.rows {
		k.names = append(k.names, r.Names())
	}
	return k
}

// unused returns the patterns whose keys no test has written.
func (k *keyTable) unused() (patterns []string) {
	for _, r := range k.rows {
		if r.Type != "channel" && !k.written[r.Pattern] {
			patterns = append(patterns, r.Pattern)
		}
	}
	return patterns
}

// compare fails the test if there is a key without a row at its end. Keys of "probe" are those of tests.
func (k *keyTable) compare(t *testing.T, s *redisstore.Store, prefix string) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		names, err := s.Approvals().Keys(ctx, prefix+"*")
		check.Must(t, err)
		for _, name := range names {
			at := slices.IndexFunc(k.names, func(row *regexp.Regexp) bool {
				return row.MatchString(strings.TrimPrefix(name, prefix))
			})
			switch {
			case at >= 0:
				k.write(ctx, t, s, &k.rows[at], name)
			case !strings.HasPrefix(name, prefix+"{probe}"):
				t.Errorf("the key %s has no row in keys.md", name)
			}
		}
	})
}

// write records that a key of a row was written. Tests also write malformed values, of other types.
func (k *keyTable) write(ctx context.Context, t *testing.T, s *redisstore.Store, r *redisstore.Row, name string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.written[r.Pattern] {
		return
	}
	check.Must(t, s.Probe().Do(ctx, func(ctx context.Context, c redis.Cmdable) error {
		kind, err := c.Type(ctx, name).Result()
		k.written[r.Pattern] = map[string]string{"sorted": "zset", "owner": "string", kind: kind}[r.Type] == kind
		return err
	}))
}

// wholePackage reports whether all tests of the package were run.
func wholePackage() bool {
	return !slices.ContainsFunc([]string{"test.run", "test.skip", "test.list"}, func(name string) bool {
		return flag.Lookup(name).Value.String() != ""
	})
}

// TestPatternsOfKeys: the code names keys and channels as the table does, and each channel of the table is used.
func TestPatternsOfKeys(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, r := range readKeyTable().rows {
		rows[r.Pattern] = false
		if tag, _, key := strings.Cut(r.Pattern, "}"); key {
			rows[tag+"}"] = false
		}
	}
	files, err := filepath.Glob("*.go")
	check.Must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "doc.go" {
			continue
		}
		text, err := os.ReadFile(file)
		check.Must(t, err)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			for _, name := range ofKinds(m[1] + m[2] + m[3]) {
				if _, known := rows[name]; !known {
					t.Errorf("%s: %q is no row of keys.md", file, name)
				}
				rows[name] = true
			}
		}
	}
	for _, kind := range redisstore.StoredKinds() {
		rows[kind.Names] = true // a channel
	}
	for name, used := range rows {
		if !used && !strings.HasPrefix(name, "{") {
			t.Errorf("the channel %q is not used", name)
		}
	}
}

// ofKinds returns the names of keys of stored objects for each kind.
func ofKinds(name string) (all []string) {
	rest, each := strings.CutPrefix(name, "{KIND}")
	if !each {
		return []string{name}
	}
	for _, kind := range redisstore.StoredKinds() {
		all = append(all, "{"+kind.Names+"}"+rest)
	}
	return all
}

// named finds the names of keys and channels in code.
var named = regexp.MustCompile(`"(\{[A-Za-z][\w:]*\}[^"\s]*)"|\.channel\("(\w+)"\)|Channel = "(\w+)"`)
