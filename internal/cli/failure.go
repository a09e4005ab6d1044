package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
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

// explainCall describes the error of a call to what is at target, with the exit status that follows from it. The
// argument flag sets the address.
func explainCall(ctx context.Context, what string, target container.Target, flag string, err error) error {
	switch {
	case !away(err):
		return exitError{exitRefused, errors.New(describeStatus(err))}
	case status.InfoOf(err) != nil:
		return exitError{exitUnreachable, errors.New(describeStatus(err))}
	}
	text := unreachable(ctx, what, target, err) + "; the flag " + flag + " sets its address"
	return exitError{exitUnreachable, errors.New(text)}
}

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
		return text + target.Addr + " takes connections, but does not answer as a gateway does"
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

// targetOf is the address of a URL's host, with the TLS settings of https; nil: the defaults.
func targetOf(u *url.URL, secure *tls.Config) container.Target {
	t, port := container.Target{}, "80"
	if u.Scheme == "https" {
		if t.TLS, port = secure.Clone(), "443"; secure == nil {
			t.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if t.Addr = u.Host; u.Port() == "" {
		t.Addr += ":" + port
	}
	return t
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
	why := code.Code_name[int32(st.Code())] //nolint:gosec // there are 17
	if info := status.DetailsOf(err).Info; info != nil {
		why = info.GetReason()
	}
	if st.Message() == "" {
		return why
	}
	return st.Message() + " (" + why + ")"
}

// reasonOf is an error of a file, without the file's name and what was done with it.
func reasonOf(err error) error {
	var of *os.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
