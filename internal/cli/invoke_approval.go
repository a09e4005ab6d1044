package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/untrusted"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	// waitSlice is the time for which one try waits at the gateway for a person's answer. It is short beside the
	// deadlines of fleets, which count meanwhile.
	waitSlice = 20 * time.Second
	// waitPause is the time for which invoke waits if the gateway does not.
	waitPause = time.Second

	approvalRequired = call.ApprovalRequired
	approvalPending  = call.ApprovalPending
)

// explain adds a flag. Its value becomes metadata of the call.
func (inv *invocation) explain(fs *pflag.FlagSet, name, key, usage string) {
	fs.Func(name, usage, func(value string) error {
		inv.said = append(inv.said, key, value)
		return nil
	})
}

// addApprovalFlags adds the flags for the identity and the approval of a call.
func (inv *invocation) addApprovalFlags(fs *pflag.FlagSet) {
	inv.explain(fs, "user", "x-user-id",
		"`name` of the user on whose behalf the call is made, if the key may assert it")
	inv.explain(fs, "agent", "x-agent-id",
		"`name` of the agent that makes the call, if the key may assert it")
	inv.explain(fs, "approval", "x-approval-id", "`id` of the approval that permits the call")
	fs.Var((*waitFlag)(inv), "wait",
		"if the call needs approval, wait for it, at most for a `duration` as in --wait=60s, then run the call once")
	fs.Lookup("wait").NoOptDefVal = "true"
	fs.DurationVar(&inv.waitTimeout, "wait-timeout", 10*time.Minute, "maximum `duration` to wait for the approval")
}

// waitFlag is the flag --wait, with or without a duration.
type waitFlag invocation

// String implements pflag.Value.
func (w *waitFlag) String() string { return "" }

// Type implements pflag.Value.
func (w *waitFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (w *waitFlag) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if w.wait = on; err == nil {
		return nil
	}
	w.wait, w.waitGiven = true, true
	if w.waitTimeout, err = time.ParseDuration(text); err != nil || w.waitTimeout <= 0 {
		return errors.New("want a duration above 0s, as in --wait=60s")
	}
	return nil
}

// checkWait rejects durations that were given twice.
func (inv *invocation) checkWait(fs *pflag.FlagSet) error {
	given := fs.Changed("wait-timeout")
	switch {
	case given && !inv.wait:
		return errors.New("--wait-timeout requires --wait")
	case given && inv.waitGiven:
		return errors.New("want --wait=DURATION or --wait-timeout DURATION, not both")
	case inv.waitTimeout <= 0:
		return errors.New("--wait-timeout must be more than 0s")
	}
	return nil
}

// checkArgs checks the positional arguments, among which no duration of --wait may be.
func (inv *invocation) checkArgs(c *cobra.Command, args []string) error {
	for _, arg := range args {
		if d, err := time.ParseDuration(arg); err == nil && d > 0 && inv.wait && !inv.waitGiven {
			return usageError("--wait has its duration after an equals sign: --wait=%s", arg)
		}
	}
	return checkPositional(c, args)
}

// notRun reports whether a call did not run because it lacks an approval.
func notRun(err error) bool {
	return slices.Contains([]string{
		approvalRequired, approvalPending, "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_USED",
		"APPROVAL_UNKNOWN", "APPROVAL_MISMATCH",
	}, status.InfoOf(err).GetReason())
}

// askedIn returns the id of the pending approval in an error, or "".
func askedIn(err error) string {
	info := status.InfoOf(err)
	if info.GetReason() != approvalRequired && info.GetReason() != approvalPending {
		return ""
	}
	return info.GetMetadata()["approval"]
}

// howToRun explains why a call did not run, and how to run it.
func (inv *invocation) howToRun(err error) string {
	id := askedIn(err)
	if id == "" {
		return untrusted.Visible(describeStatus(err))
	}
	id = untrusted.Word(id)
	text := fmt.Sprintf("a person has to approve this call of %s of %s (%s): approval %s", inv.req.GetToolName(),
		inv.req.GetCapabilityId(), status.InfoOf(err).GetReason(), id)
	if until := status.InfoOf(err).GetMetadata()["expires"]; until != "" {
		text += ", until " + untrusted.Word(until)
	}
	if page := status.InfoOf(err).GetMetadata()["approval_link"]; page != "" {
		text += "\n  page:         " + untrusted.Word(page)
	}
	text += fmt.Sprintf(`
  see it:       capgate approvals show %s (at the admin API), or GET /v1/approvals/%[1]s
  answer it:    capgate approvals approve %[1]s, or deny`, id)
	if inv.waiting {
		return text
	}
	text += fmt.Sprintf("\n  then run it:  the same command with --approval %s, once", id)
	if !inv.wait {
		text += "; or --wait instead"
	}
	return text
}

// await repeats a call that needs approval until it is approved or denied. All tries but the last are rejected
// before the tool runs.
func (inv *invocation) await(ctx context.Context, client docpb.CapabilityClient, stdout io.Writer, err error) error {
	over, cancel := context.WithTimeout(ctx, inv.waitTimeout)
	defer cancel()
	id := askedIn(err)
	until, _ := time.Parse(time.RFC3339, status.InfoOf(err).GetMetadata()["expires"]) // zero: not known
	inv.waiting = true
	fmt.Fprintf(inv.errs, "capgate invoke: %s\nwaiting for the approval…\n", inv.howToRun(err))
	inv.waiting = false
	for {
		left := inv.left(over, until)
		if left <= 0 {
			return err
		}
		// a call that names its approval does not wait at the gateway
		if status.InfoOf(err).GetReason() == approvalPending && !backoff.Sleep(over, min(waitPause, left)) {
			return err
		}
		next := inv.try(ctx, client, stdout, min(left, waitSlice))
		if again := askedIn(next); again != id {
			return next // answered; or expired, and another try would create a new approval
		}
		err = next
	}
}

// left returns the remaining time to wait: after an approval's end, the same call would need a new one.
func (inv *invocation) left(over context.Context, until time.Time) time.Duration {
	if over.Err() != nil {
		return 0
	}
	end, _ := over.Deadline()
	if !until.IsZero() && until.Before(end) {
		end = until
	}
	return time.Until(end)
}

// try makes the call once, and has the gateway wait for an answer so long before.
func (inv *invocation) try(ctx context.Context, client docpb.CapabilityClient, stdout io.Writer,
	wait time.Duration) error {
	longer := *inv
	if inv.timeout > 0 {
		longer.timeout += wait
	}
	seconds := strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)
	return longer.once(metadata.AppendToOutgoingContext(ctx, "x-approval-wait", seconds), client, stdout)
}
