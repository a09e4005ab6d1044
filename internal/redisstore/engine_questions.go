package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// EngineQuestions stores the approvals of engines' own questions. It is an engine.Questions.
type EngineQuestions struct{ client }

// EngineQuestions returns the store of engines' questions.
func (s *Store) EngineQuestions() *EngineQuestions { return &EngineQuestions{s.client(Engines)} }

func (q *EngineQuestions) question(tenant, engine, question string) string {
	return q.key("{TENANT:question:ENGINE:SUM}", tenant, engine, digest(question))
}

// Bind implements engine.Questions.
func (q *EngineQuestions) Bind(
	ctx context.Context, tenant, engine, question, approval string, lasts time.Duration,
) error {
	return q.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.Set(ctx, q.question(tenant, engine, question), approval, lasts).Err()
	})
}

// Bound implements engine.Questions.
func (q *EngineQuestions) Bound(ctx context.Context, tenant, engine, question string) (string, error) {
	approval, err := fetch(ctx, q.client, redis.Cmdable.Get, q.question(tenant, engine, question))
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return approval, err
}
