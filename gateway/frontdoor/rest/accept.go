package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// formWanted is the form in which the client would rather have an answer (RFC 9110 §12.5.1), of those that
// offered gives for its media ranges. Of equals it is the one that is named first, and of ranges with
// a * any other goes before them. Who names none gets standard; false: nothing that there is will do.
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
	return map[string]form{"application/json": whole, "application/*": whole, "*/*": whole, eventStream: events, jsonLines: lines}
}

// onlyStreams are those of answers that are.
func onlyStreams() map[string]form {
	return map[string]form{eventStream: events, "text/*": events, "*/*": events, jsonLines: lines, "application/*": lines}
}

func notAcceptable() *refusal {
	return &refusal{code: codes.InvalidArgument, status: http.StatusNotAcceptable, reason: "NOT_ACCEPTABLE",
		detail: "this path answers with a stream: accept " + eventStream + " or " + jsonLines}
}
