package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/call"
)

// formWanted negotiates the form of a response (RFC 9110 §12.5.1) among those that offered returns for media
// ranges. Among equal weights the first wins, and ranges with a * come last. Without an Accept header the form is
// standard; false: no form is acceptable.
func formWanted(header http.Header, standard form, offered map[string]form) (form, bool) {
	best, most, exact, any := standard, 0.0, false, false
	for _, list := range header.Values("Accept") {
		for one := range strings.SplitSeq(list, ",") {
			typ, params, err := mime.ParseMediaType(one)
			if err != nil {
				continue // it asks for nothing that anybody could send
			}
			any = true
			f, ok := offered[typ]
			q := 1.0
			if v, there := params["q"]; there {
				if q, err = strconv.ParseFloat(v, 64); err != nil {
					q = 0
				}
			}
			named := !strings.Contains(typ, "*")
			if ok && (q > most || q == most && q > 0 && named && !exact) {
				best, most, exact = f, q, named
			}
		}
	}
	return best, !any || most > 0
}

// orWhole are the forms of answers that need not be streams.
func orWhole() map[string]form {
	return map[string]form{"application/json": whole, "application/*": whole, "*/*": whole, stream.Events: events,
		stream.Lines: lines}
}

// onlyStreams are those of answers that are.
func onlyStreams() map[string]form {
	return map[string]form{stream.Events: events, "text/*": events, "*/*": events, stream.Lines: lines, "application/*": lines}
}

func notAcceptable() *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "NOT_ACCEPTABLE",
		Message: "this path answers with a stream: accept " + stream.Events + " or " + stream.Lines}
}
