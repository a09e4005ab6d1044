package redisstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestConnectionsHaveAName: the list of Redis's clients shows the program and its version, even if its user has no
// permission for commands about clients. A connection with a wrong password fails.
func TestConnectionsHaveAName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(setUsers(t, "compose.acl")["capgate"]...)
	server.Do("ACL", "SETUSER", "capgate", "-client")
	ping := func(password string) error {
		store := open(t, redisstore.Config{URL: as(server.URL(), "capgate", password)})
		return store.Probe().Do(t.Context(),
			func(ctx context.Context, r redis.Cmdable) error { return r.Ping(ctx).Err() })
	}
	check.Must(t, ping("@PASSWORD@"))
	list, _ := server.Do("CLIENT", "LIST").(string)
	if want := "name=" + buildinfo.UserAgent("capgate") + " "; !strings.Contains(list, want) {
		t.Errorf("no client has %s:\n%s", want, list)
	}
	if ping("wrong") == nil {
		t.Error("a wrong password is accepted")
	}
}
