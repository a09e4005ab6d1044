package files

import (
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
)

// Problem is an error that HTTP has a status of its own for.
type Problem struct {
	Status int // of HTTP
	Code   codes.Code
	Reason string
	Detail string

	NotStarted bool // the capability has got nothing
}

// notStarted returns p as that of a request of which the capability has got nothing.
func (p *Problem) notStarted() *Problem {
	p.NotStarted = true
	return p
}

func (p *Problem) Error() string { return p.Detail }

// refusedByCapability is a capability's own error.
func refusedByCapability(status int, code codes.Code, text string) *Problem {
	return &Problem{Status: status, Code: code, Reason: "ARTIFACT_REFUSED", Detail: text}
}

func tooLarge(most int64) *Problem {
	return &Problem{Status: http.StatusRequestEntityTooLarge, Code: codes.ResourceExhausted, Reason: "BODY_TOO_LARGE",
		Detail: fmt.Sprintf("the body is larger than %d bytes", most)}
}

func badHeader(name, want string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: codes.InvalidArgument, Reason: "INVALID_HEADER",
		Detail: fmt.Sprintf("the header %s %s", name, want)}
}

func badForm(why string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: codes.InvalidArgument, Reason: "INVALID_FORM", Detail: why}
}

// broken is a body that ended before its end.
func broken() *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: codes.InvalidArgument, Reason: "UPLOAD_CUT_OFF",
		Detail: "the body ended before its end; nothing of the file was kept"}
}

func stalled() *Problem {
	return &Problem{Status: http.StatusRequestTimeout, Code: codes.DeadlineExceeded, Reason: "UPLOAD_STALLED",
		Detail: "nothing more came of the body for too long"}
}

func isStalled(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusRequestTimeout
}

func mismatch() *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: codes.InvalidArgument, Reason: "DIGEST_MISMATCH",
		Detail: "the content does not match its digest; nothing of the file was stored"}
}

// unread is the error of an upload that the capability answered before it had read all of it.
func unread() *Problem {
	return &Problem{Status: http.StatusBadGateway, Code: codes.DataLoss, Reason: "ARTIFACT_NOT_READ",
		Detail: "the capability answered before it had all of the file, or gave it no id"}
}

// cutOff is a download that ended well, as far as gRPC knows, without its last chunk.
func cutOff() *Problem {
	return &Problem{Status: http.StatusBadGateway, Code: codes.DataLoss, Reason: "ANSWER_CUT_OFF",
		Detail: "the capability ended the file before its last chunk; the file is incomplete"}
}
