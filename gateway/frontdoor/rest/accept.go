package rest

import (
	"net/http"
	"slices"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/accept"
)

// formWanted negotiates the form of a response (RFC 9110 §12.5.1). The forms that * may match are in the order of
// preference; whole must be among them, while streams must be named or matched. Among equal weights the first range
// wins, and ranges with * come last. Without an Accept header the form is the first one. It returns false if no form
// is acceptable.
func formWanted(h http.Header, any ...form) (form, bool) {
	ranges := accept.Ranges(h, "Accept")
	best, most := any[0], 0.0
	for _, r := range ranges {
		for _, f := range [...]form{whole, events, lines} {
			if r.Name == f.contentType() && r.Weight > most && (f != whole || slices.Contains(any, whole)) {
				best, most = f, r.Weight
			}
		}
	}
	for _, f := range any {
		if weight := accept.Weigh(ranges, f.contentType()); weight > most {
			best, most = f, weight
		}
	}
	return best, len(ranges) == 0 || most > 0
}

func notAcceptable() *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "NOT_ACCEPTABLE",
		Message: "this path responds with a stream: accept " + stream.Events + " or " + stream.Lines}
}
