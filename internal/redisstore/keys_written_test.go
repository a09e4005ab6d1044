package redisstore_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
)

// TestOneReplicaReadsWhatAnotherWrote, of state that the other tests delete again or do not have.
func TestOneReplicaReadsWhatAnotherWrote(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx, writes, reads := t.Context(), open(), open()

		d := &approvals.Draft{TTL: time.Hour, Escalates: time.Minute, MaxOpen: 9}
		d.ID, d.Tenant = "apr_1", "acme"
		_, err := writes.Approvals().Create(ctx, d)
		check.Must(t, err)
		if _, next, err := reads.Approvals().Due(ctx, "acme"); next <= 0 || next > time.Minute || err != nil {
			t.Errorf("the approval escalates after %v, %v", next, err)
		}

		check.Must(t, writes.Policies().MarkLost(ctx, "epoch-1"))
		if r, err := reads.Policies().Revision(ctx); r.Lost != "epoch-1" || err != nil {
			t.Errorf("lost rules: %+v, %v", r, err)
		}

		versions := map[string]catalog.Version{"send": {Description: "Sends.", Schema: []byte("{}"),
			Output: []byte("[]")}}
		check.Must(t, writes.Versions().Save(ctx, "mail", versions))
		if got, err := reads.Versions().Load(ctx, "mail", []string{"send", "other"}); err != nil ||
			!reflect.DeepEqual(got, versions) {
			t.Errorf("versions of tools: %+v, %v", got, err)
		}

		revoked := session.Revocation{Session: "s1", Until: time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())}
		owned := revoked
		owned.Owner = "acme"
		check.Must(t, writes.People().Revoke(ctx, []session.Revocation{owned}))
		if _, got, err := reads.People().Revoked(ctx, changefeed.Position{}); err != nil ||
			!reflect.DeepEqual(got, []session.Revocation{revoked}) {
			t.Errorf("revocations: %+v, %v", got, err)
		}

		b := &recent.Batch{Replica: &recent.Replica{ID: "r1", Version: "v1", Seen: time.Now()}}
		check.Must(t, writes.Recent().Publish(ctx, b, 10))
		if got, err := reads.Recent().Replicas(ctx, time.Hour); err != nil || len(got) != 1 || got[0].Version != "v1" {
			t.Errorf("replicas: %+v, %v", got, err)
		}
	})
}
