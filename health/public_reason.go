package health

import (
	"cmp"
	"encoding/json"
	"strings"
)

// WrongService returns the reason of a backend that serves something else than its fleet expects. words say what is
// there and what to write. response, which may be "", is the backend's own text.
func WrongService(words, response string) string {
	if response != "" {
		words += says + response
	}
	return wrongService + words
}

// Incomplete returns the reason of a backend that is up, and serves less than its fleet expects.
func Incomplete(words string) string { return incomplete + words }

// Rejecting returns the reason of a backend that rejects the gateway's own requests with a status. hint is the remedy,
// and response is the backend's own text; both may be "".
func Rejecting(status, hint, response string) string {
	if hint != "" {
		return rejecting + status + ": " + hint + says + cmp.Or(response, "nothing")
	}
	return strings.TrimSuffix(rejecting+status+": "+response, ": ")
}

// Incomplete reports whether the backend is good, and serves less than its fleet expects.
func (r *Result) Incomplete() bool { return r.OK && strings.HasPrefix(r.Reason, incomplete) }

// PublicReason returns the part of Reason that callers may read, "" if there is none: what a backend that is Down is
// instead of what its fleet expects, or how it rejects the gateway.
func (b *Backend) PublicReason() string {
	if b.WrongService() {
		told, _, _ := strings.Cut(b.Reason, says)
		return told
	}
	words, is := strings.CutPrefix(b.Reason, rejecting)
	if !is || b.State != Down {
		return ""
	}
	told, response, hinted := strings.Cut(words, says)
	if !hinted {
		told, response, _ = strings.Cut(words, ": ")
	}
	return rejecting + told + PublicResponse(response)
}

// PublicResponse returns what callers may read of a response that rejects a request, after its status: the error that
// it has as JSON for its client, or else where operators find the response.
func PublicResponse(response string) string {
	var body struct {
		ID    json.RawMessage `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	var text string
	if json.Unmarshal([]byte(response), &body) == nil && (len(body.ID) == 0 || string(body.ID) == "null") {
		var object struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(body.Error, &text) != nil && json.Unmarshal(body.Error, &object) == nil {
			text = object.Message
		}
	}
	if text == "" {
		return "; capgate status has its response"
	}
	return ": " + text
}
