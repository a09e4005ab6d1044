package upstream

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	minLeak = 8  // bytes of the shortest secret that is searched for
	maxLeak = 32 // bytes of a secret that are searched for
)

// Repeats reports whether a text has a part of headers, which may be credentials.
func Repeats(text string, headers map[string][]string) bool {
	for _, values := range headers {
		for _, value := range values {
			for field := range strings.FieldsSeq(value) {
				if len(field) >= minLeak && strings.Contains(text, field[:min(len(field), maxLeak)]) {
					return true
				}
			}
		}
	}
	return false
}

var errRepeats = errors.New("the backend's text repeats a configured header, and is not shown")

// WithoutHeaders returns the error of a discovery. Its text is replaced if it repeats a part of headers.
func WithoutHeaders(err error, headers map[string][]string) error {
	if err == nil || !Repeats(err.Error(), headers) {
		return err
	}
	if st, is := status.FromError(err); is {
		return status.Error(st.Code(), errRepeats.Error())
	}
	return localgrpc.NotStarted(errRepeats)
}

// credentials matches texts with what may be a credential: a value after its name, or one that has the shape of one.
var credentials = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|secret|token|api[-_ ]?key|authorization|` +
	`credential|cookie|session)[\w-]*["']?\s*(?:=\s*\S|:\s*["']?[\w.-]*\d)|` +
	`\b(?:bearer|basic)\s+[\w.~+/=-]*\d|://[^\s/@]*:[^\s/@]+@|\beyJ[\w-]{8,}\.|` +
	`\b(?:sk|pk|rk|ghp|gho|ghu|ghs|glpat|xox[a-z])[-_][\w-]{8,}|\bAKIA\w{12}|-----BEGIN`)

// searched is how many bytes of a text, beyond those that are shown, are searched for credentials.
const searched = 4 << 10

// Said returns why a backend fails in its own words, as one line of at most some bytes, for operators. A text that may
// have a credential is withheld as a whole. Text far beyond the line is not searched: the search takes about half a
// second per MiB.
func Said(text string, most int) string {
	text = untrusted.Clip(text, most+searched)
	if credentials.MatchString(text) {
		return "(its text may have a credential, and is not shown)"
	}
	return untrusted.Clip(untrusted.Line(text), most)
}

const (
	maxReasons = 3   // that LeftOut has in full; the rest is counted
	maxReason  = 240 // bytes of each
)

// LeftOut returns what a discovery leaves out, and why, for localgrpc.SetRest; nil means nothing. A reason that
// repeats a part of headers is not shown.
func LeftOut(reasons []error, headers map[string][]string) []byte {
	var all []string
	for i, err := range reasons {
		if i == maxReasons {
			all = append(all, fmt.Sprintf("and %d more", len(reasons)-i))
			break
		}
		if Repeats(err.Error(), headers) {
			err = errRepeats
		}
		all = append(all, Said(err.Error(), maxReason))
	}
	if all == nil {
		return nil
	}
	return []byte(strings.Join(all, "; "))
}
