package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// lettersPage is the default and maximum number of dead letters on a page.
const lettersPage = 100

// Letters has the events that could not be delivered to a webhook.
type Letters interface {
	Dead(ctx context.Context, skip, most int) ([]webhook.Letter, error)
	Retry(ctx context.Context, id string) (bool, error)
}

// Letter is one such event.
type Letter struct {
	ID       string    `json:"id"`          // the webhook-id
	To       string    `json:"destination"` // its name in the configuration; webhook: approvals.webhook
	Type     string    `json:"type"`        // as in a webhook request
	Tenant   string    `json:"tenant"`
	Approval string    `json:"approval"`
	Time     time.Time `json:"time"` // time of the event
	Died     time.Time `json:"died"` // time of the last attempt
	Attempts int       `json:"attempts"`
	Error    string    `json:"error"` // result of the last attempt
}

// LettersPage is a page of dead letters, the newest first.
type LettersPage struct {
	Dead []Letter `json:"dead"`
	// names of all destinations of the configuration; webhook: approvals.webhook
	Destinations []string `json:"destinations"`
	Next         string   `json:"next_page_token,omitempty"`
}

// MountWebhooks adds dead letters to a mux: GET /v1/webhooks/dead?page_size=&page_token=, and POST
// /v1/webhooks/dead/{id}:retry, which delivers one again. Destinations returns the names of all that the configuration has.
// The log has the deliveries; nil: none.
func MountWebhooks(mux *guard.Mux, letters Letters, destinations func() []string, log *audit.Log) {
	mux.HandleFunc("GET /v1/webhooks/dead",
		func(w http.ResponseWriter, r *http.Request) { listLetters(w, r, letters, destinations) })
	mux.HandleFunc("POST /v1/webhooks/dead/{target}",
		func(w http.ResponseWriter, r *http.Request) { retryLetter(w, r, letters, log) })
}

func listLetters(w http.ResponseWriter, r *http.Request, letters Letters, destinations func() []string) {
	size, ok := sizeOf(w, r, lettersPage, lettersPage)
	if !ok {
		return
	}
	skip := 0
	if token := r.URL.Query().Get("page_token"); token != "" {
		n, err := strconv.ParseUint(token, 10, 31)
		if err != nil {
			refuse(w, r, http.StatusBadRequest, codes.InvalidArgument, "LETTER_INVALID",
				"page_token: it must be the next_page_token of a response")
			return
		}
		skip = int(n)
	}
	found, err := letters.Dead(r.Context(), skip, size)
	if err != nil {
		refuseLetters(w, r)
		return
	}
	page := LettersPage{Dead: []Letter{}, Destinations: append([]string{}, destinations()...)}
	for i := range found {
		l := &found[i]
		page.Dead = append(page.Dead, Letter{l.ID, l.Destination, "approval." + string(l.Kind), l.Tenant, l.Approval, l.At.UTC(),
			l.Died.UTC(), l.Attempts, l.Reason})
	}
	if len(found) == size {
		page.Next = strconv.Itoa(skip + size)
	}
	write(w, http.StatusOK, page)
}

func retryLetter(w http.ResponseWriter, r *http.Request, letters Letters, log *audit.Log) {
	id, ok := strings.CutSuffix(r.PathValue("target"), ":retry")
	if !ok {
		refuse(w, r, http.StatusNotFound, codes.NotFound, "LETTER_UNKNOWN", "want POST /v1/webhooks/dead/ID:retry")
		return
	}
	switch found, err := letters.Retry(r.Context(), id); {
	case err != nil:
		refuseLetters(w, r)
	case !found:
		refuse(w, r, http.StatusNotFound, codes.NotFound, "LETTER_UNKNOWN", "the dead letter does not exist")
	default:
		log.RecordChange(&audit.Change{Actor: operator.NameOf(r.Context(), ""), What: "letter.retried",
			Targets: []audit.Target{{Name: "letter", Value: id}}})
		write(w, http.StatusOK, struct{}{})
	}
}

func refuseLetters(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusServiceUnavailable, codes.Unavailable, "WEBHOOKS_UNAVAILABLE",
		"dead letters cannot be read or written at the moment")
}
