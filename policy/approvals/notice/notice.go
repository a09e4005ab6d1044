package notice

import (
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// Bounds of the texts of callers, in characters.
const (
	maxValue = 200 // of a name
	maxWords = 600 // of a description, a reason or a comment
	// maxChange bounds the difference of a tool from its accepted version.
	maxChange = 1200
)

// Notice is an event of an approval in words. Its texts are visible, bounded, and not escaped.
type Notice struct {
	Title     string  // the gateway's own words
	What      string  // the tool and the tenant, of one line
	Fields    []Field // in the order of their importance
	Arguments string  // lines; "": none that can be shown
	Link      string  // "": none
	Button    string  // the text of the link
}

// Field is a name and its value. Only the value has texts of callers.
type Field struct{ Name, Value string }

// title returns the title of an event.
func title(kind approvals.Kind) string {
	switch kind {
	case approvals.EventCreated:
		return "Approval needed"
	case approvals.EventApproved:
		return "Approved"
	case approvals.EventDenied:
		return "Denied"
	case approvals.EventUsed:
		return "The approved call runs"
	case approvals.EventReleased:
		return "The approved call did not start"
	case approvals.EventExpired:
		return "Approval expired"
	case approvals.EventAnswered:
		return "Approved in part: more people have to approve"
	case approvals.EventEscalated:
		return "Approval escalated: further groups may answer"
	}
	return "Approval: " + inline(string(kind), maxValue)
}

// New returns the notice of an event.
func New(kind approvals.Kind, a *approvals.Approval) Notice {
	n := Notice{Title: title(kind), Link: a.Link, Button: "Open the approval"}
	if kind == approvals.EventCreated && a.State != approvals.Pending {
		n.Title = "Approval, already " + a.State.String()
	} else if a.State == approvals.Pending {
		n.Button = "Review the call"
	}
	n.What = inline(a.Tool, maxShortName) + " of " + inline(a.Capability, maxShortName) + ", tenant " +
		inline(a.Tenant, maxShortName)
	n.add("Tool", a.Tool, maxValue)
	n.add("Capability", a.Capability, maxValue)
	n.add("User", a.User, maxValue)
	n.add("Agent", a.Agent, maxValue)
	n.add("Tenant", a.Tenant, maxValue)
	if a.State == approvals.Pending || a.State == approvals.Approved {
		n.add("Expires", a.Expires.UTC().Format(time.RFC1123), maxValue)
	} else {
		n.add("State", a.State.String(), maxValue)
	}
	n.add("Approved so far", soFar(a), maxValue)
	n.add("Answered by", a.By, maxValue)
	n.add("Comment", a.Comment, maxWords)
	n.add("Why", a.Why, maxWords)
	n.add("Tool changed", a.Change, maxChange)
	n.add("Description", a.Description, maxWords)
	n.add("Approval", a.ID, maxValue)
	if n.Arguments = visible(a.Preview, true); a.Excerpt {
		n.Arguments += excerptText
	}
	return n
}

// excerptText follows arguments that are not shown whole.
const excerptText = "\n(This is an excerpt. The page of the approval shows all arguments.)"

// soFar lists the people that have approved a pending call, if several must.
func soFar(a *approvals.Approval) string {
	if a.State != approvals.Pending || a.Terms == nil || a.Terms.Answers < 2 || len(a.Answers) == 0 {
		return ""
	}
	names := make([]string, len(a.Answers))
	for i := range a.Answers {
		names[i] = a.Answers[i].By
	}
	return fmt.Sprintf("%d of %d: %s", len(names), a.Terms.Answers, strings.Join(names, ", "))
}

// maxShortName bounds a name in a subject, in characters.
const maxShortName = 60

// add adds a field, unless it is empty.
func (n *Notice) add(name, value string, most int) {
	if value = inline(value, most); value != "" {
		n.Fields = append(n.Fields, Field{name, value})
	}
}
