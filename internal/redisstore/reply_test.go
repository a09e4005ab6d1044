package redisstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
)

// TestReplies: a reply has exactly the values that are read, of their types. After an error all values are zero.
func TestReplies(t *testing.T) {
	t.Parallel()
	lost := errors.New("the connection is lost")
	hash := []any{"a", "b", "c", nil}
	const unexpected = "0  map[] redis returned an unexpected reply"
	for want, replies := range map[string][]any{
		"7 x map[a:b c:] <nil>":            {[]any{int64(7), "x", hash}, []any{"7", "x", hash}},
		"7  map[] <nil>":                   {[]any{int64(7), nil, []any{}}},
		unexpected:                         {nil, int64(0), []any{}, []any{"x", "x", hash}, []any{nil, "x", hash}},
		"7" + unexpected[1:]:               {int64(7), []any{int64(7), int64(8), hash}},
		"7 x" + unexpected[2:]:             {[]any{int64(7), "x"}, []any{int64(7), "x", "y"}},
		"7 x map[a:]" + unexpected[8:]:     {[]any{int64(7), "x", []any{"a"}}},
		"7 x map[a:b c:]" + unexpected[8:]: {[]any{int64(7), "x", hash, "more"}},
	} {
		for _, v := range replies {
			n, text, fields, err := redisstore.ReadReply(v, nil)
			if got := fmt.Sprint(n, " ", text, " ", fields, " ", err); got != want {
				t.Errorf("%#v: %s, want %s", v, got, want)
			}
		}
	}
	for err, want := range map[error]string{lost: lost.Error(), redis.Nil: "redis returned an unexpected reply"} {
		if n, text, fields, got := redisstore.ReadReply(nil, err); n != 0 || text != "" || len(fields) > 0 ||
			got == nil || got.Error() != want {
			t.Errorf("after %v: %d, %q, %v, %v", err, n, text, fields, got)
		}
	}
}
