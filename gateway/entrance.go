package gateway

import (
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/problems"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/turnstile"
	"github.com/capgate/capgate/internal/tenant"
)

// waitingRequests is how many requests of one tenant may wait to begin.
const waitingRequests = 1024

// entrance has requests of the front doors pass a turnstile.
func (h *handler) entrance(t *turnstile.Turnstile, doors http.Handler) http.Handler {
	full := problems.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(refusedHeavy.RetryAfter.Seconds())))
		problems.Write(w, r, problems.Own(http.StatusTooManyRequests, codes.ResourceExhausted, refusedHeavy.Reason, refusedHeavy.Message))
	}))
	return t.Handler(h.guess, full, doors)
}

// guess is whose a request is, as far as that can be told at once: those of whom it cannot share their turns. What
// it may do is decided later.
func (h *handler) guess(r *http.Request) string {
	if !h.callers.credentials {
		return ""
	}
	claim := tenant.Claim{Credential: tenant.Bearer(r.Header.Get(authorizationHeader))}
	if claim.Credential == "" {
		claim.Credential = r.Header.Get(apiKeyHeader)
	}
	if p := relay.PeerOf(r.Context()); claim.Credential == "" && p != nil {
		claim.Peer = p.Value.(*visitor).peer
	}
	if who, known, refusal := h.callers.Identify(claim); known && refusal == nil {
		return who.Tenant
	}
	return ""
}
