package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/history"
)

// maxMark bounds the text of a mark, in bytes.
const maxMark = 2 << 10

var addHistoryScript = newScript("history_add")

// History is a history.Store.
type History struct{ client }

var _ history.Store = (*History)(nil)

// History returns the store of the history of calls.
func (s *Store) History() *History { return &History{s.client(PastCalls)} }

func (h *History) stepKey(at history.Step) string {
	return h.key("{history}:SPAN:N", at.Span.Name, strconv.FormatInt(at.Number, 10))
}

// Add implements history.Store, by one script.
func (h *History) Add(ctx context.Context, entries []history.Entry, series int) error {
	var keys []string
	index := map[history.Step]int{}
	args := []any{series}
	for i := range entries {
		if at := entries[i].Step; index[at] == 0 {
			keys = append(keys, h.stepKey(at))
			index[at] = len(keys)
			args = append(args, at.Span.Keep().Milliseconds())
		}
	}
	for i := range entries {
		e := &entries[i]
		args = append(args, index[e.Step], e.Series, e.Other, e.Text)
	}
	return h.run(ctx, addHistoryScript, keys, args...).Err()
}

// Points implements history.Store.
func (h *History) Points(ctx context.Context, series string, steps []history.Step) (texts []string, err error) {
	got := make([]*redis.StringCmd, len(steps))
	err = h.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range steps {
				got[i] = p.HGet(ctx, h.stepKey(steps[i]), series)
			}
			return nil
		})
		if err == redis.Nil { //nolint:errorlint // of the first missing point
			err = nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	for _, one := range got {
		texts = append(texts, one.Val())
	}
	return texts, nil
}

// All implements history.Store.
func (h *History) All(ctx context.Context, at history.Step) (map[string]string, error) {
	return fetch(ctx, h.client, redis.Cmdable.HGetAll, h.stepKey(at))
}

// Mark implements history.Store.
func (h *History) Mark(ctx context.Context, m *history.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a mark: %w", err)
	}
	return h.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.XAdd(ctx, &redis.XAddArgs{Stream: h.key("{history}:marks"), MaxLen: history.MaxMarks, Approx: true,
			Values: []any{"mark", text}}).Err()
	})
}

// Marks implements history.Store.
func (h *History) Marks(ctx context.Context) ([]history.Mark, error) {
	return newestOf[history.Mark](ctx, h.client, h.key("{history}:marks"), "mark", history.MaxMarks, maxMark)
}
