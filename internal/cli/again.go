package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/backoff"
)

// watchAgain is the pause before a command reconnects.
const watchAgain = time.Second

// again follows a stream until ctx ends, and reports on err when the connection is lost and restored. follow calls
// began when the stream has started. When it is called again, it resumes after the last event. A stream that never
// started is not repeated.
func again(ctx context.Context, err io.Writer, command string, follow func(began func()) error) error {
	began, reported := false, false // reported: the disconnection was printed
	for {
		failure := follow(func() {
			if reported {
				fmt.Fprintln(err, command+": reconnected")
			}
			began, reported = true, false
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case !away(failure) || !began:
			return failure
		case !reported:
			fmt.Fprintf(err, "%s: %s; reconnecting\n", command, lost(failure))
			reported = true
		}
		if !backoff.Sleep(ctx, watchAgain) {
			return nil
		}
	}
}

// lost describes the end of a stream, without the words of the transport.
func lost(err error) string {
	if status.InfoOf(err) != nil {
		return describeStatus(err)
	}
	return "the connection to the gateway was lost"
}
