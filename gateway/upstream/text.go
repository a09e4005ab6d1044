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
	minLeak = 8  // minimum length of a secret that is searched for, in bytes
	maxLeak = 32 // number of a secret's bytes that are searched for
)

// Repeats reports whether a text contains a part of headers, which may be credentials.
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

// credentials matches texts that may contain a credential: a value after its name, or one with the form of a
// credential.
var credentials = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|secret|token|api[-_ ]?key|authorization|` +
	`credential|cookie|session)[\w-]*["']?\s*(?:=\s*\S|:\s*["']?[\w.-]*\d)|` +
	`\b(?:bearer|basic)\s+[\w.~+/=-]*\d|://[^\s/@]*:[^\s/@]+@|\beyJ[\w-]{8,}\.|` +
	`\b(?:sk|pk|rk|ghp|gho|ghu|ghs|glpat|xox[a-z])[-_][\w-]{8,}|\bAKIA\w{12}|-----BEGIN`)

// searched is the number of bytes after the shown part of a text that are searched for credentials.
const searched = 4 << 10

// Said returns a backend's own explanation of a failure for operators, as one line of at most most bytes. A text that
// may contain a credential is withheld as a whole. Text far beyond the line is not searched: searching takes about
// half a second per MiB.
func Said(text string, most int) string {
	text = untrusted.Clip(text, most+searched)
	if credentials.MatchString(text) {
		return "(its text may contain a credential, and is not shown)"
	}
	return untrusted.Clip(untrusted.Line(text), most)
}

const (
	maxReasons = 3   // number of reasons that LeftOut shows in full; the others are counted
	maxReason  = 240 // bytes of each reason
)

// LeftOut returns what a discovery omits, and why, for localgrpc.SetRest; nil means nothing. A reason that repeats a
// part of headers is not shown.
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
