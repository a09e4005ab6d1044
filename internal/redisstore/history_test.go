package redisstore_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/history/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestHistory: replicas share the history on each kind of Redis.
func TestHistory(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) history.Store { return s.History() })
}

// TestCostOfTheHistory measures what docs/run/sizing.md says: the bytes of series that are called all the time, and the
// commands that a replica sends for them in a minute.
func TestCostOfTheHistory(t *testing.T) {
	t.Parallel()
	const series, most, scripts = 100, 7 << 20, 3
	url, raw := startRaw(t)
	s := open(t, redisstore.Config{URL: url})
	point := history.Point{Seen: 60, Usable: 60, Reasons: map[string]int64{"RATE_LIMITED": 12}}
	for i := range point.Results {
		point.Results[i] = 1000
	}
	for i := range 8 {
		point.Took[i] = 500
	}
	entries := func(at history.Step) (all []history.Entry) {
		for i := range series {
			of := history.Series{Kind: history.Tool, Group: "weather", Name: "get_forecast_" + strconv.Itoa(i)}
			all = append(all, history.Entry{Step: at, Series: of.Field(), Other: "other", Text: point.Text()})
		}
		return all
	}
	steps := 0
	for _, span := range history.Spans() {
		for number := range int64(span.Steps) {
			check.Must(t, s.History().Add(t.Context(), entries(history.Step{Span: span, Number: number}), series))
			steps++
		}
	}
	if got := bytesOfKeys(t, raw); got > most || got < most/4 {
		t.Errorf("%d series of %d steps have %d bytes, and the page says up to %d", series, steps, got, most)
	} else {
		t.Logf("%d series of %d steps: %d bytes", series, steps, got)
	}
	sent := s.Stats().Commands[redisstore.PastCalls]
	var minute []history.Entry
	for _, span := range history.Spans() {
		minute = append(minute, entries(history.Step{Span: span, Number: 1})...)
	}
	for part := range slices.Chunk(minute, history.MaxEntries) {
		check.Must(t, s.History().Add(t.Context(), part, series))
	}
	if got := s.Stats().Commands[redisstore.PastCalls] - sent; got != scripts {
		t.Errorf("%d scripts a minute, not %d", got, scripts)
	}
}

// startRaw starts a Redis, and returns its URL and a client of it.
func startRaw(t *testing.T) (url string, raw *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	options, err := redis.ParseURL(server.URL())
	check.Must(t, err)
	raw = redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })
	return server.URL(), raw
}

// bytesOfKeys returns the bytes of all keys of a Redis. The memory of the process also has buffers of connections.
func bytesOfKeys(t *testing.T, raw *redis.Client) (sum int) {
	t.Helper()
	keys := raw.Scan(t.Context(), 0, "*", 100).Iterator()
	for keys.Next(t.Context()) {
		n, err := raw.MemoryUsage(t.Context(), keys.Val(), 0).Result()
		check.Must(t, err)
		sum += int(n)
	}
	check.Must(t, keys.Err())
	return sum
}
