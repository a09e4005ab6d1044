package webhooks_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/gateway/admin/webhooks"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals/webhook"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// retried notes the letters that are retried. Every one dies again at once.
type retried struct {
	lettersOf
	ids []string
}

func (r *retried) Dead(ctx context.Context, skip, most int) ([]webhook.Letter, error) {
	return r.lettersOf.Dead(ctx, skip, most)
}

func (r *retried) Retry(_ context.Context, id string) (bool, error) {
	r.ids = append(r.ids, id)
	return true, nil
}

// TestAllLettersAreRetriedOnce: a request retries the newest 1000 letters that match, each once, the oldest first. It
// skips and counts malformed ones.
func TestAllLettersAreRetriedOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		letters lettersOf
		query   string
		want    int
		more    bool
		skipped int
	}{{274, "", 271, false, 3}, {1200, "", 1000, true, 10}, {1200, "msg_119", 11, false, 12}, {0, "", 0, false, 0}} {
		r := &retried{lettersOf: test.letters}
		client := capgatepb.NewWebhooksClient(gatewaytest.ServeOperators(t, webhooks.New(r,
			func() []string { return nil }, nil)).Conn)
		resp, err := client.RetryDeadLetters(t.Context(), &capgatepb.RetryDeadLettersRequest{Query: test.query})
		check.Must(t, err)
		if int(resp.GetRetried()) != test.want || len(r.ids) != test.want || resp.GetMore() != test.more ||
			int(resp.GetMalformed()) != test.skipped {
			t.Errorf("%+v: %v, %d calls", test, resp, len(r.ids))
		}
		if test.query == "" && test.want > 0 && (r.ids[0] != fmt.Sprint("msg_", test.want+test.skipped-1) ||
			len(slices.Compact(slices.Sorted(slices.Values(r.ids)))) != test.want) {
			t.Errorf("%s first", r.ids[0])
		}
	}
}
