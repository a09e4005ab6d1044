package approvals

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Approver is the authenticated person or key that answers. The zero value is an unauthenticated approver: it is in no
// group, and cannot be one of several people.
type Approver struct {
	User   string   // the person; "": a credential without a user
	Issuer string   // that authenticated the person; "": none
	Groups []string // verified groups of the person
	Key    string   // name of the credential; "": none

	Names   []string  // further names by which the person and the credential are counted
	Makers  []string  // such names of the people who may have made the credential; "*": unknown
	Created time.Time // when the credential was made, by the store's clock; zero: unknown, or by the configuration

	Unverified bool // User is not verified, and cannot be one of several people
}

// person identifies an approver among those of one approval. "" is an unknown one.
func (w *Approver) person() string {
	if w.User != "" && !w.Unverified {
		return "user " + w.User
	}
	if w.Key != "" {
		return "credential " + w.Key
	}
	return ""
}

// GivenAnswer is an answer of one person.
type GivenAnswer struct {
	Person   string   // identifies the approver; "": unknown
	Names    []string // as of an Approver
	Makers   []string
	By, User string
	State    State // Approved or Denied
	Comment  string
	Remember Remember
	ValidFor time.Duration // of an answer for session or always; 0: no end
	Time     time.Time     // by the store's clock
}

// MayAnswer returns why an approver may not approve a call now; nil: it may. Comments are not judged.
func (k *Service) MayAnswer(a *Approval, approver *Approver) *call.Refusal {
	switch {
	case a.State != Pending:
		return refusedAnswer(a)
	case a.Level == Elsewhere:
		return refusedElsewhere(a)
	}
	t := a.Terms
	if t == nil {
		t = k.terms(a)
	}
	return mayAnswer(a, t, approver, Approved)
}

// mayAnswer judges the approver by the terms. Users may deny their own calls.
func mayAnswer(a *Approval, t *Terms, approver *Approver, s State) *call.Refusal {
	if len(t.Groups) > 0 && !slices.ContainsFunc(approver.Groups, func(g string) bool {
		return slices.Contains(t.Groups, g)
	}) {
		return refusedGroup(a.ID, t.Groups, approver)
	}
	if s != Approved {
		return nil
	}
	if !t.Self && approver.User != "" && approver.User == a.User {
		return refusedSelf(a.ID)
	}
	if t.Answers > 1 && approver.person() == "" {
		return refusedUnnamed(a.ID, t.Answers)
	}
	if n := len(a.Answers); n < t.Answers && gave(a.Answers, approver) {
		return refusedAgain(a.ID)
	}
	if t.Answers > 1 {
		return countable(a, approver)
	}
	return nil
}

// countable judges the credential of one of several approvers. A credential counts once, whatever user it asserts. One
// that an approver of the call has made, and one that was made after the call, may be the same person's.
func countable(a *Approval, approver *Approver) *call.Refusal {
	if !approver.Created.IsZero() && !approver.Created.Before(a.Created) {
		return refusedNew(a.ID)
	}
	for i := range a.Answers {
		if g := &a.Answers[i]; g.Person != approver.person() && g.related(approver) {
			return refusedRelated(a.ID)
		}
	}
	return nil
}

// related reports whether an answer may come from the same person, by another credential.
func (g *GivenAnswer) related(approver *Approver) bool {
	mine, theirs := append([]string{approver.person()}, approver.Names...), append([]string{g.Person}, g.Names...)
	return share(mine, theirs) || share(mine, g.Makers) || share(theirs, approver.Makers)
}

// unknownMaker matches any name.
const unknownMaker = "*"

// share reports whether two lists have a name in common.
func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool {
		return slices.Contains(b, name) || slices.Contains(b, unknownMaker)
	})
}

// gave reports whether a person has answered.
func gave(answers []GivenAnswer, approver *Approver) bool {
	return slices.ContainsFunc(answers, func(g GivenAnswer) bool { return g.Person == approver.person() })
}

// checkAnswer judges an answer to a pending approval, and sets its validity.
func (k *Service) checkAnswer(a *Approval, s State, answer *Answer) *call.Refusal {
	t := a.Terms
	if refusal := mayAnswer(a, t, &answer.Who, s); refusal != nil {
		return refusal
	}
	if s == Denied && len(a.Answers) > 0 && answer.Who.person() != "" && gave(a.Answers, &answer.Who) {
		return refusedAgain(a.ID)
	}
	if strings.TrimSpace(answer.Comment) == "" && (t.Reason == ReasonAlways || t.Reason == ReasonDeny && s == Denied) {
		return refusedReason(a.ID)
	}
	return k.setValidity(t, answer)
}

// setValidity checks the validity of an answer, and sets the default.
func (k *Service) setValidity(t *Terms, answer *Answer) *call.Refusal {
	most := time.Duration(maxValidity)
	switch answer.Remember {
	case ThisCall:
		if answer.ValidFor != 0 {
			return refusedValidity("valid_for is for an answer that is remembered, for session or always")
		}
		return nil
	case ThisSession:
		most = maxSessionTTL
	case Always:
	}
	if t.MaxValidity > 0 {
		most = min(most, t.MaxValidity)
	}
	switch v := answer.ValidFor; {
	case v == 0 && answer.Remember == ThisSession:
		answer.ValidFor = min(k.opts.SessionTTL, most)
	case v == 0:
		answer.ValidFor = t.MaxValidity
	case v < time.Second || v > most:
		return refusedValidity("valid_for must be 1 s to " + most.String())
	}
	return nil
}

func refusedSelf(id string) *call.Refusal {
	return refused("SELF_APPROVAL", "this is your own call; another person must approve it", id)
}

func refusedGroup(id string, groups []string, approver *Approver) *call.Refusal {
	text := "only members of these groups may answer: " + strings.Join(groups, ", ")
	switch {
	case approver.person() == "":
		text += "; the approver is not authenticated, and so is in no group"
	case approver.User == "":
		text += "; an API key is in no group"
	}
	r := refused("APPROVER_GROUP", text, id)
	r.Metadata["groups"] = untrusted.Truncate(strings.Join(groups, ","), maxName)
	return r
}

func refusedUnnamed(id string, n int) *call.Refusal {
	return refused("APPROVER_REQUIRED", strconv.Itoa(n)+" different people have to approve the call, but nothing "+
		"authenticates this approver", id)
}

func refusedAgain(id string) *call.Refusal {
	r := refused("ALREADY_ANSWERED", "you have already answered; another person must approve the call as well", id)
	r.Kind = call.FailedPrecondition
	return r
}

func refusedRelated(id string) *call.Refusal {
	r := refused("CREDENTIAL_COUNTED",
		"this credential, or one that made it or that it has made, has already answered; "+
			"a person with another credential has to approve the call, too", id)
	r.Kind = call.FailedPrecondition
	return r
}

func refusedNew(id string) *call.Refusal {
	r := refused("CREDENTIAL_TOO_NEW",
		"several people have to approve the call, and an API key that was made after the "+
			"call does not count; answer with one that is older", id)
	r.Kind = call.FailedPrecondition
	return r
}

func refusedReason(id string) *call.Refusal {
	r := refused("REASON_REQUIRED", "the answer needs a comment with the reason", id)
	r.Kind = call.InvalidArgument
	r.Metadata["field"] = "comment"
	return r
}

func refusedValidity(text string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "APPROVAL_INVALID", Message: text,
		Metadata: map[string]string{"field": "valid_for"}}
}
