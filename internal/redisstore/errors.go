package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrAway is the error of every command while Redis is known not to answer.
var ErrAway = errors.New("redis is away")

// failed says whether a command did not do what it was sent for. That there is no such
// key, or no such script yet, is an answer.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

// absent says whether a failure means that there is no Redis to talk to, so that the next
// command would fail as well.
func absent(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, redis.ErrClosed) {
		return false // the caller, or we, left
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true // no answer: a connection that broke, or could not be made, or a time that ran out
	}
	for _, prefix := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH", "WRONGPASS"} {
		if strings.HasPrefix(answer.Error(), prefix) {
			return true
		}
	}
	return false
}
