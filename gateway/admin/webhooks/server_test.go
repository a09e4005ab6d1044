package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/gateway/admin/webhooks"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/webhook"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// lettersOf is a number of dead letters; negative: reading fails. One of a hundred is malformed.
type lettersOf int

func (n lettersOf) Dead(_ context.Context, skip, most int) (page []webhook.Letter, err error) {
	if n < 0 {
		return nil, errors.New("away")
	}
	for i := skip; i < int(n) && len(page) < most; i++ {
		l := webhook.Letter{Destination: "ops", Attempts: i, Reason: "HTTP status 502", Died: time.UnixMilli(2000)}
		l.Event = webhook.Event{ID: fmt.Sprint("msg_", i), Tenant: "acme", Approval: "apr_1",
			Kind: approvals.EventCreated, At: time.UnixMilli(1000)}
		if i%100 == 50 {
			l = webhook.Letter{Event: webhook.Event{ID: l.ID}, Malformed: true}
		}
		page = append(page, l)
	}
	return page, nil
}

func (n lettersOf) Retry(_ context.Context, id string) (bool, error) {
	if n < 0 {
		return false, errors.New("away")
	}
	return id == "msg_0", nil
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	ask := func(n lettersOf, method, path string) (int, string) {
		p := gatewaytest.ServeOperators(t, webhooks.New(n, func() []string {
			return []string{"ops", "webhook"}[:max(n, 0)&2]
		},
			nil))
		return p.Ask(t, method, path, "")
	}
	const dead = "/v1/webhooks/dead"
	for _, test := range []struct {
		letters      lettersOf
		method, path string
		code         int
		body         string
	}{
		{0, "GET", dead, 200, `{"dead":[],"destinations":[]}`},
		{1, "GET", dead, 200, `{"dead":[{"id":"msg_0","destination":"ops","type":"approval.asked","tenant":"acme","approval":"apr_1","time":"1970-01-01T00:00:01Z","died":"1970-01-01T00:00:02Z","attempts":0,"error":"HTTP status 502"}],"destinations":[]}`},
		{1, "GET", dead + "?page_token=-1", 400, "LETTER_INVALID"},
		{1, "GET", dead + "?page_token=x", 400, "LETTER_INVALID"},
		{2, "GET", dead, 200, `"destinations":["ops","webhook"]`},
		{3, "GET", dead + "?page_size=2", 200, `"next_page_token":"2"`},
		{3, "GET", dead + "?page_size=2&page_token=2", 200, `{"dead":[{"id":"msg_2",`},
		{250, "GET", dead + "?page_size=1000", 200, `"next_page_token":"101","malformed":1`},
		{1, "GET", dead + "?page_size=-1", 400, "INVALID_PAGE_SIZE"},
		{-1, "GET", dead, 503, "WEBHOOKS_UNAVAILABLE"},
		{250, "GET", dead + "?query=MSG_249", 200, `{"dead":[{"id":"msg_249",`},
		{250, "GET", dead + "?query=502+nobody", 200, `{"dead":[],`},
		{3, "POST", dead + ":retry", 200, `{"retried":1,"more":false}`}, // msg_0
		{1, "POST", dead + "/msg_0:retry", 200, "{}"},
		{1, "POST", dead + "/msg_1:retry", 404, "LETTER_UNKNOWN"},
		{1, "POST", dead + "/msg_0", 404, "NO_SUCH_PATH"},
		{-1, "POST", dead + "/msg_0:retry", 503, "WEBHOOKS_UNAVAILABLE"},
	} {
		if code, body := ask(test.letters, test.method, test.path); code != test.code ||
			!strings.Contains(body, test.body) {
			t.Errorf("%s %s: %d %s", test.method, test.path, code, body)
		}
	}
	seen, malformed := 0, 0
	for token := "0"; token != ""; {
		var page capgatepb.ListDeadLettersResponse
		_, body := ask(250, "GET", dead+"?page_token="+token)
		check.Must(t, protojson.Unmarshal([]byte(body), &page))
		seen, token = seen+len(page.GetDead()), page.GetNextPageToken()
		malformed += int(page.GetMalformed())
	}
	if seen != 248 || malformed != 2 {
		t.Errorf("%d in all pages, and %d malformed ones", seen, malformed)
	}
}
