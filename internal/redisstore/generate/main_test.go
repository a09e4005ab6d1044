package main

import (
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// root is the repository's, seen from this package.
const root = "../../.."

// TestTheTableOfKeysIsUpToDate: `make generate` was run.
func TestTheTableOfKeysIsUpToDate(t *testing.T) {
	t.Parallel()
	check.Must(t, run(root, true))
}

// TestGrants: rows of read-only sections may be read, whatever other sections have the same hash tag.
func TestGrants(t *testing.T) {
	t.Parallel()
	got := grants(redisstore.Rows("## A\n\nx. Read-only for other gateways.\n\n{a}:x  hash  none  x\n" +
		"{a}:y:N  set  1 h  y\n## B\n\n{a}:z:[UID:]w  owner  none  z\n{TENANT:b}  string  none  b\n" +
		"{c:N}:d  stream  none  d\nc  channel    c\n"))
	if want := []string{"%R~cg:{a}:*", "~cg:{a}:z:*w", "~cg:{*:b}", "~cg:{c:*}:*"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
