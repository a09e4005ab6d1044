package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is the error of every command while Redis is known to be unavailable.
var ErrUnavailable = errors.New("redis is unavailable")

// failed reports whether a command failed. A missing key, or a missing script, is a result.
func failed(err error) bool {
	return err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

// unreachable reports whether an error means that Redis cannot be reached, so that the next command would fail too. A
// caller that leaves, or whose deadline is earlier than the store's timeout, says nothing about Redis.
func unreachable(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, redis.ErrClosed) || outOfTime(ctx, err) {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true // no answer: a broken or failed connection, or a timeout
	}
	for _, prefix := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN The cluster is down", "NOAUTH", "WRONGPASS"} {
		if strings.HasPrefix(answer.Error(), prefix) {
			return true
		}
	}
	return false
}

// outOfTime reports whether a command ended with its caller's deadline, before the store's own timeout.
func outOfTime(ctx context.Context, err error) bool {
	deadline, bounded := ctx.Deadline()
	var timeout net.Error // context.DeadlineExceeded is one
	return bounded && deadline.Before(boundOf(ctx).ends) && errors.As(err, &timeout) && timeout.Timeout()
}
