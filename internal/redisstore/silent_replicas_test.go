package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSilentReplicasAreForgotten: entries of replicas that are silent are removed, and a search for them is not made
// with every command, because it would take Redis a millisecond for a thousand replicas. A search that another clock
// has noted for the future does not count.
func TestSilentReplicasAreForgotten(t *testing.T) {
	t.Parallel()
	url, raw := startRaw(t)
	s := open(t, redisstore.Config{URL: url})
	for _, of := range []struct {
		entries, notes, note, text string // the hash of replicas; the hash and the field of the last search
		send                       func() error
	}{
		{"cg:{recent}:replicas", "cg:{recent}:replicas", "", `1 {"id":"gone"}`, func() error {
			return s.Recent().Publish(t.Context(), &recent.Batch{Replica: &recent.Replica{ID: "here", Redis: "ok",
				Seen: time.Now()}}, 10)
		}},
		{"cg:{drains}:calls", "cg:{drains}:state", "swept", "1\n", func() error {
			_, err := s.Drains().Exchange(t.Context(), drains.Report{Replica: "here"})
			return err
		}},
	} {
		goes := func(when string, want bool) {
			t.Helper()
			check.Must(t, raw.HSet(t.Context(), of.entries, "gone", of.text).Err())
			check.Must(t, of.send())
			if got := !raw.HExists(t.Context(), of.entries, "gone").Val(); got != want {
				t.Errorf("%s, %s: removed %v", of.entries, when, got)
			}
			if !raw.HExists(t.Context(), of.entries, "here").Val() {
				t.Errorf("%s, %s: a replica that has just sent is removed", of.entries, when)
			}
		}
		goes("at first", true)
		check.Must(t, raw.HSet(t.Context(), of.notes, of.note, "1").Err())
		goes("long after the last search", true)
		check.Must(t, raw.HSet(t.Context(), of.notes, of.note, strings.Repeat("9", 15)).Err())
		goes("with a search in the future", true)
		check.Until(t, "a command that makes no search", func() (bool, string) {
			check.Must(t, raw.HSet(t.Context(), of.entries, "gone", of.text).Err())
			check.Must(t, of.send())
			return raw.HExists(t.Context(), of.entries, "gone").Val(), of.entries
		})
	}
	check.Must(t, raw.HDel(t.Context(), "cg:{recent}:replicas", "gone").Err())
	all, err := s.Recent().Replicas(t.Context(), time.Minute)
	if err != nil || len(all) != 1 || all[0].ID != "here" || s.Stats().Malformed > 0 {
		t.Errorf("replicas %+v, %v", all, err)
	}
}

// TestEmbeddedRedisForgetsSilentReplicas: the embedded Redis searches again, beside its own note of the last search.
func TestEmbeddedRedisForgetsSilentReplicas(t *testing.T) {
	t.Parallel()
	s, began := open(t, redisstore.Config{}), time.Now()
	for _, of := range []struct {
		after time.Duration
		id    string
	}{{0, "gone"}, {11 * time.Second, "here"}, {75 * time.Second, "here"}} {
		redisstore.SetClock(s, began.Add(of.after))
		check.Must(t, s.Recent().Publish(t.Context(), &recent.Batch{Replica: &recent.Replica{ID: of.id, Redis: "ok",
			Seen: began.Add(of.after)}}, 10))
		_, err := s.Drains().Exchange(t.Context(), drains.Report{Replica: of.id})
		check.Must(t, err)
	}
	all, err := s.Recent().Replicas(t.Context(), time.Hour)
	if err != nil || len(all) != 1 || all[0].ID != "here" {
		t.Errorf("replicas %+v, %v", all, err)
	}
}
