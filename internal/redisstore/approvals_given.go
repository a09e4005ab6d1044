package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy/approvals"
)

// The answers of an approval's people are in a hash of their own, which replicas of older versions do not read. Each is
// signed, since the replica that takes the last answer relies on the others.

// givenText is a person's answer.
type givenText struct {
	Person   string   `json:"person"`
	Names    []string `json:"names,omitempty"`
	Makers   []string `json:"makers,omitempty"`
	By       string   `json:"by"`
	User     string   `json:"user,omitempty"`
	Answer   string   `json:"answer"`
	Comment  string   `json:"comment,omitempty"`
	Remember string   `json:"remember"`
	Valid    int64    `json:"valid,omitempty"` // ms
	Seal     string   `json:"seal,omitempty"`
}

func encodeGiven(g *approvals.GivenAnswer, seal string) (string, error) {
	text, err := json.Marshal(givenText{Person: g.Person, Names: g.Names, Makers: g.Makers, By: g.By, User: g.User,
		Answer: g.State.String(), Comment: g.Comment, Remember: g.Remember.String(), Valid: g.ValidFor.Milliseconds(),
		Seal: seal})
	return string(text), err
}

func (a *ApprovalStore) answersKey(tenant, id string) string {
	return a.key("{TENANT:approvals}:answers:ID", tenant, id)
}

// givenParts are the signed parts of a person's answer. record is the first signature of the approval.
func givenParts(record string, g *approvals.GivenAnswer) []string {
	parts := []string{"given", record, g.Person, g.By, g.User, g.State.String(), g.Comment, g.Remember.String(),
		strconv.FormatInt(g.ValidFor.Milliseconds(), 10)}
	if len(g.Names)+len(g.Makers) > 0 { // answers of older versions have neither
		parts = append(append(append(parts, g.Names...), "makers"), g.Makers...)
	}
	return parts
}

func (a *ApprovalStore) signGiven(tenant, id, record string, g *approvals.GivenAnswer) string {
	return a.sign(ApprovalAnswer, a.answersKey(tenant, id), givenParts(record, g)...)
}

// parseGiven parses an answer, as in TOKEN MS JSON, and verifies it.
func (a *ApprovalStore) parseGiven(tenant, id, record, text string) (g approvals.GivenAnswer, ok bool) {
	_, text, _ = strings.Cut(text, " ")
	at, text, _ := strings.Cut(text, " ")
	var t givenText
	ok = json.Unmarshal([]byte(text), &t) == nil && parseMillis(&g.Time, at)
	state, known := approvals.ParseState(t.Answer)
	remember, alsoKnown := approvals.ParseRemember(t.Remember)
	g.Names, g.Makers = t.Names, t.Makers
	g.Person, g.By, g.User, g.State, g.Comment = t.Person, t.By, t.User, state, t.Comment
	g.Remember, g.ValidFor = remember, time.Duration(t.Valid)*time.Millisecond
	return g, ok && known && alsoKnown && t.Valid >= 0 &&
		a.verify(ApprovalAnswer, a.answersKey(tenant, id), t.Seal, givenParts(record, &g)...)
}

// addGiven adds the verified answers of people to a record, the oldest first. A record of an older version has one in
// its own fields.
func (a *ApprovalStore) addGiven(r *approvals.Record, f map[string]string) {
	for text := range strings.SplitSeq(f["answers"], "\n") {
		if text == "" {
			continue
		}
		if g, ok := a.parseGiven(r.Tenant, r.ID, f["seal"], text); ok {
			r.Answers = append(r.Answers, g)
		} else {
			a.malformed(a.answersKey(r.Tenant, r.ID))
		}
	}
	slices.SortStableFunc(r.Answers, func(x, y approvals.GivenAnswer) int {
		return cmp.Or(x.Time.Compare(y.Time), strings.Compare(x.Person, y.Person))
	})
	if r.Answered.IsZero() {
		return
	}
	if len(r.Answers) == 0 {
		r.Answers = []approvals.GivenAnswer{{By: r.By, State: answeredState(f), Comment: r.Comment,
			Remember: r.Remember, Time: r.Answered}}
		return
	}
	for _, g := range r.Answers {
		if v := g.ValidFor; g.State == answeredState(f) && v > 0 && (r.ValidFor == 0 || v < r.ValidFor) {
			r.ValidFor = v
		}
	}
}

// answeredState is the answer of a record that was answered: what follows an approval is no denial.
func answeredState(f map[string]string) approvals.State {
	if f["state"] == approvals.Denied.String() {
		return approvals.Denied
	}
	return approvals.Approved
}

// dropForged deletes answers whose signature is wrong, so that they do not stand in the way of others.
func (a *ApprovalStore) dropForged(ctx context.Context, tenant, id string, f map[string]string) error {
	if !a.store.signer.on() {
		return nil
	}
	var all map[string]string
	key := a.answersKey(tenant, id)
	return a.do(ctx, func(ctx context.Context, c redis.Cmdable) (err error) {
		if all, err = c.HGetAll(ctx, key).Result(); err != nil {
			return err
		}
		for person, text := range all {
			if g, ok := a.parseGiven(tenant, id, f["seal"], text); !ok || g.Person != person {
				if err = c.HDel(ctx, key, person).Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// tokenEscaper makes a token one word: a person's answer begins with it, and with a space after it.
var tokenEscaper = strings.NewReplacer("%", "%25", " ", "%20")

// answerArgs are the arguments of answerScript.
func (a *ApprovalStore) answerArgs(id string, r *approvals.StoredAnswer, with *answerSignatures) []any {
	var lasting, given any = "", ""
	if r.Remember == approvals.ThisSession {
		lasting = r.ValidFor.Milliseconds()
	}
	final, before := "1", -1
	if r.More {
		final = ""
	}
	if r.Given.State != 0 {
		given = with.given
	}
	if r.Checked {
		before = len(r.Before)
	}
	args := []any{id, tokenEscaper.Replace(r.Token), r.State.String(), r.TTL.Milliseconds(), lasting, with.session,
		with.expected, with.expires, final, r.Given.Person, given, before}
	for _, person := range r.Before {
		args = append(args, person)
	}
	args = append(args, len(r.Names))
	for _, name := range r.Names {
		args = append(args, name)
	}
	return append(append(args, encodeFields(answerFields(&r.By, &r.Comment, &r.Remember))...), "answer_seal", with.seal)
}
