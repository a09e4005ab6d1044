package redisstore

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/recent"
)

// erase deletes the calls and the counts of a tenant. A replica that has not published its last calls yet may add them
// within seconds.
func (r *Recent) erase(ctx context.Context, tenant string) error {
	keys := r.keys(nil, "{recent}:order", "{recent}:flows", "{recent}:calls")
	last := time.Now().Unix()/60 + 1 // the clock of another replica may be ahead
	for minute := last - recent.Window - 5; minute <= last; minute++ {
		keys = append(keys, r.minuteKey(minute))
	}
	if err := r.forgetPast(ctx, tenant); err != nil {
		return err
	}
	return r.run(ctx, eraseRecentScript, keys, joinWords([]string{"+" + tenant}), joinWords([]string{"-" + tenant}),
		tenant).Err()
}

var eraseRecentScript = newScript("recent_erase")
