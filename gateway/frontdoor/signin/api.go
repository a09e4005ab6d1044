package signin

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/session"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// WriteMe responds with the person of a request, and with its session if there is one.
func (h *Handler) WriteMe(w http.ResponseWriter, r *http.Request, me *capgatepb.GetMeResponse, s *session.Session) {
	if s != nil {
		me.ExpireTime, me.CsrfToken, me.Session = restjson.Time(s.Expires), s.CSRF, s.ID
	}
	text, _ := restjson.Marshal(me) // every such message can be encoded
	writeJSON(w, r, json.RawMessage(text))
}

// readJSON decodes the body of a request.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return err
	}
	return strictjson.UnmarshalKnown(text, v)
}

func writeJSON(w http.ResponseWriter, r *http.Request, body any) {
	text, err := plainjson.Marshal(body)
	if err != nil { // every body of this package can be encoded
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(text, '\n')) // an error means that the client has disconnected
	}
}

func retryAfter(refusal *call.Refusal) string {
	return strconv.FormatFloat(math.Ceil(refusal.RetryAfter.Seconds()), 'f', 0, 64)
}
