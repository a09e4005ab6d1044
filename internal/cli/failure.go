package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/container"
)

// diagnosisTime bounds the connection that finds out why another failed.
const diagnosisTime = 2 * time.Second

// unreachable says why no answer came from target. It connects once more to find out.
func unreachable(ctx context.Context, what string, target container.Target, err error) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diagnosisTime)
	defer cancel()
	text := "the " + what + " cannot be reached: "
	var problem *container.Problem
	answers := !errors.As(target.Reach(ctx), &problem)
	late := grpcstatus.Code(err) == codes.DeadlineExceeded || os.IsTimeout(err)
	switch {
	case !answers && problem.Kind == container.NothingThere:
		return text + problem.Words + "; start it, or look for another port"
	case !answers && problem.Kind != container.NotHTTP2:
		return text + problem.Words
	case late:
		return fmt.Sprintf("the %s at %s did not answer in time", what, target.Addr)
	case !answers:
		return text + target.Addr + " accepts connections, but does not answer as a gateway does"
	case grpcstatus.Code(err) == codes.Unavailable && !ofTransport(err):
		return describeStatus(err)
	}
	return fmt.Sprintf("the connection to the %s at %s was lost before the answer", what, target.Addr)
}

// ofTransport reports whether a status was made by this end, from an error of the connection.
func ofTransport(err error) bool {
	text := grpcstatus.Convert(err).Message()
	for _, mark := range []string{"connection", "reading from server", "transport", "produced zero addresses",
		"name resolver error", "unexpected HTTP status", "tcp", "broken pipe"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// answerOverHTTP returns the status of a response that is not gRPC's, as in 401 (Unauthorized), from the error that
// grpc-go makes of it; "": the error is another one.
func answerOverHTTP(err error) string {
	text := grpcstatus.Convert(err).Message()
	if status.DetailsOf(err).Info != nil ||
		!strings.Contains(text, "unexpected HTTP status code received from server") &&
			!strings.Contains(text, "unexpected content-type") && !strings.Contains(text, "missing HTTP content-type") {
		return ""
	}
	_, answer, found := strings.Cut(text, "received from server: ")
	if answer, _, _ = strings.Cut(answer, ";"); !found {
		return "200 (OK)" // grpc-go names every other one
	}
	return answer
}

// away reports whether a retry may succeed.
func away(err error) bool {
	code := grpcstatus.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// describeStatus returns the message of a call's status, with the reason if the gateway rejected the call, and the
// gRPC code otherwise.
func describeStatus(err error) string {
	st, ok := grpcstatus.FromError(err)
	if !ok {
		return err.Error()
	}
	if answer := answerOverHTTP(err); answer != "" {
		return "the server answered with HTTP " + answer + ", which is not gRPC"
	}
	why := code.Code_name[int32(st.Code())] //nolint:gosec // there are 17
	if info := status.DetailsOf(err).Info; info != nil {
		why = info.GetReason()
	}
	if st.Message() == "" {
		return why
	}
	return st.Message() + " (" + why + ")"
}

// reasonOf returns an error of a file, without the file's name and what was done with it.
func reasonOf(err error) error {
	var of *os.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
