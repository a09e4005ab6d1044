package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/status"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const reviewHelp = `It shows each pending approval with all arguments, the oldest first, and waits for a line:

  y  approve this call       n  deny it       s  skip it       q  stop

A text after y or n is the reason: "n not before Monday". An answer is for this call alone; for a session
or for always, use approve and deny. Lines typed before an approval is shown are discarded. The command
needs a terminal.`

// reviewColumns is the greatest width of the text.
const reviewColumns = 80

// errQuit ends a review.
var errQuit = errors.New("quit")

// review is one run of capgate approvals review.
type review struct {
	*approvalsCommand
	cmd     *cobra.Command
	conn    grpc.ClientConnInterface
	lines   *bufio.Scanner // of the person
	columns int

	approved, denied, skipped, failures int
}

// review shows pending approvals and asks for their answers.
func (c *approvalsCommand) review(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	if !isTerminal(c.in) || !isTerminal(c.out) {
		return usageError("review needs a terminal; list approvals with capgate approvals list, and answer them with " +
			"capgate approvals approve ID... or deny ID...")
	}
	r := &review{approvalsCommand: c, cmd: cmd, conn: conn, lines: bufio.NewScanner(c.in), columns: reviewColumns}
	if width := widthOf(c.out); width > 0 {
		r.columns = min(reviewColumns, max(width, 20))
	}
	err := r.all()
	fmt.Fprintf(c.out, "\n%d approved, %d denied, %d skipped", r.approved, r.denied, r.skipped)
	if r.failures > 0 {
		fmt.Fprintf(c.out, ", %s failed", count(r.failures, "answer"))
	}
	fmt.Fprintln(c.out)
	switch {
	case err != nil && !errors.Is(err, errQuit):
		return err
	case r.failures > 0:
		return quiet(exitRefused)
	}
	return nil
}

// all reviews every pending approval that the filter selects.
func (r *review) all() error {
	r.filter.State, r.filter.Order, r.filter.PageSize = "pending", "oldest", 100
	return pages(func(token string) (string, error) {
		r.filter.PageToken = token
		ctx, cancel := context.WithTimeout(r.cmd.Context(), requestTimeout)
		defer cancel()
		page, err := capgatepb.NewApprovalsClient(r.conn).ListApprovals(ctx, r.filter)
		if n := len(page.GetApprovals()); token == "" && err == nil {
			more := map[bool]string{true: ", and more after them"}[page.GetNextPageToken() != ""]
			fmt.Fprintf(r.out, "pending: %s%s\n", count(n, "approval"), more)
		}
		for _, a := range page.GetApprovals() {
			if err := r.one(a); err != nil {
				return "", err
			}
		}
		return page.GetNextPageToken(), err
	})
}

// one shows an approval, and asks until it is answered or skipped.
func (r *review) one(listed *capgatepb.Approval) error {
	ctx, cancel := context.WithTimeout(r.cmd.Context(), requestTimeout)
	defer cancel()
	got, err := capgatepb.NewApprovalsClient(r.conn).GetApproval(ctx,
		&capgatepb.GetApprovalRequest{Tenant: listed.GetTenant(), ApprovalId: listed.GetId()})
	switch a := got.GetApproval(); {
	case status.InfoOf(err).GetReason() == "APPROVAL_UNKNOWN":
		return nil // it was deleted meanwhile
	case err != nil:
		return err
	case a.GetState() != "pending":
		fmt.Fprintf(r.out, "\n%s\n", wrapped(fmt.Sprintf("%s: %s meanwhile (%s)", a.GetId(), a.GetState(),
			callOf(a)), r.columns))
		return nil
	default:
		var b bytes.Buffer
		describeApproval(&b, a)
		fmt.Fprintf(r.out, "\n%s\n%s\n", strings.Repeat("-", r.columns), wrapped(b.String(), r.columns))
		return r.ask(a)
	}
}

// ask asks for the answer to an approval.
func (r *review) ask(a *capgatepb.Approval) error {
	mayApprove := a.GetMayAnswer() && a.GetMayNotApproveWhy() == ""
	for {
		for canRead(r.in) && r.lines.Scan() { // typed before the person saw this approval
		}
		switch {
		case mayApprove:
			fmt.Fprint(r.out, "Approve? y [REASON], n [REASON], s: skip, q: quit > ")
		case a.GetMayAnswer():
			fmt.Fprint(r.out, "Deny? n [REASON], s: skip, q: quit > ")
		default:
			fmt.Fprint(r.out, "You may not answer it. s: skip, q: quit > ")
		}
		line, err := r.line()
		if err != nil {
			return err
		}
		word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		reason = strings.TrimSpace(reason)
		switch word = strings.ToLower(word); {
		case word == "q":
			return errQuit
		case word == "s":
			r.skipped++
			return nil
		case word == "y" && mayApprove && reason == "" && a.GetReasonRequiredToApprove(),
			word == "n" && a.GetMayAnswer() && reason == "" && a.GetReasonRequired():
			fmt.Fprintf(r.out, "A reason is required: %s REASON\n", word)
		case word == "y" && mayApprove:
			r.answer(a, reason, r.approving(r.conn), approvedText, &r.approved)
			return nil
		case word == "n" && a.GetMayAnswer():
			r.answer(a, reason, r.denying(r.conn), deniedText, &r.denied)
			return nil
		}
	}
}

// line waits for a line of the person. When the context ends first, the goroutine that reads ends with the process.
func (r *review) line() (string, error) {
	read := make(chan bool, 1)
	go func() { read <- r.lines.Scan() }()
	select {
	case <-r.cmd.Context().Done():
		return "", errQuit
	case ok := <-read:
		if !ok {
			return "", errQuit
		}
		return r.lines.Text(), nil
	}
}

// answer sends an answer, prints what became of it, and counts it.
func (r *review) answer(a *capgatepb.Approval, reason string, answer answering, text func(*capgatepb.Approval) string,
	count *int) {
	r.comment = reason
	after, err := answerOne(r.cmd.Context(), a.GetId(), answer)
	if err != nil {
		r.failures++
		fmt.Fprintln(r.out, wrapped("the answer failed: "+describeStatus(err), r.columns))
		return
	}
	*count++
	fmt.Fprint(r.out, wrapped(text(after), r.columns))
}

// continued begins a line that continues the one before.
const continued = "↳ "

// wrapped breaks lines that are longer than so many characters.
func wrapped(text string, columns int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = brokenLine(line, columns)
	}
	return strings.Join(lines, "\n")
}

func brokenLine(line string, columns int) string {
	indent := strings.Repeat(" ", min(len(line)-len(strings.TrimLeft(line, " ")), columns/2)) + continued
	var b strings.Builder
	for rest := []rune(line); ; {
		if len(rest) <= columns {
			b.WriteString(string(rest))
			return b.String()
		}
		at := columns
		for i := columns; i > columns/2; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		b.WriteString(string(rest[:at]) + "\n")
		rest = append([]rune(indent), rest[at:]...)
	}
}
