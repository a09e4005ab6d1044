package verify

import (
	"context"
	"crypto/rand"
	"time"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Results of a check.
const (
	Pass       = "pass"
	Fail       = "fail"
	NotChecked = "not checked"
)

// Check is a guarantee and the result of its check.
type Check struct {
	Name      string `json:"name"`
	Guarantee string `json:"guarantee"`
	Result    string `json:"result"`        // Pass, Fail or NotChecked
	Why       string `json:"why,omitempty"` // of a result other than Pass
}

// Call is the call that the checks make. It really runs.
type Call struct {
	Tenant           string // for the approvals API; "": the operator's, or all
	Capability, Tool string
	Args             []byte // JSON
	OtherArgs        []byte // JSON that differs from Args; nil: changed arguments are not checked
	User, Agent      string // "": the caller's own
}

// Config configures the access to a gateway. Callers, Approvals and Call are required.
type Config struct {
	Callers   []docpb.CapabilityClient // public ports of replicas of one gateway
	Approvals capgatepb.ApprovalsClient
	Call      Call
	// Credential returns a context with the caller's credential; nil: calls have none.
	Credential func(context.Context) context.Context
	WaitExpiry time.Duration // maximum wait for approvals to expire; 0 skips these checks
	Waiting    func(time.Duration)
}

// timeout of each call and answer.
const timeout = 30 * time.Second

// verifier makes the checks of one run.
type verifier struct {
	Config
	session string // prefix of the sessions of all calls
	made    []made
	lost    error // of the first call, if the gateway does not answer it, or not this caller
}

// Report is the result of a run.
type Report struct {
	Checks    []Check
	Approvals int      // number of approvals that the run made
	Left      []string // ids of the approvals that could not be ended
}

// Run makes all checks, and ends all approvals that it made. The error is that of the first call, if the gateway does
// not answer it or requires another credential, or of ctx.
func Run(ctx context.Context, cfg Config) (r Report, err error) {
	v := &verifier{Config: cfg, session: "capgate-verify-" + rand.Text()[:12]}
	r.Checks, err = v.run(ctx)
	r.Left, r.Approvals = v.cleanUp(ctx), len(v.made)
	return r, err
}

func (v *verifier) run(ctx context.Context) (checks []Check, err error) {
	var begun expiring
	for _, of := range guarantees {
		c := Check{Name: of.name, Guarantee: of.text}
		c.Result, c.Why = of.check(v, ctx)
		checks = append(checks, c)
		if v.lost != nil {
			return nil, v.lost
		}
		if of.name == "asked" && c.Result != Pass {
			return skipRest(checks), ctx.Err()
		}
		if of.name == "asked" {
			begun = v.beginExpiry(ctx)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	c := Check{Name: "expiry", Guarantee: "an approval that has expired cannot be used or answered"}
	c.Result, c.Why = v.endExpiry(ctx, begun)
	return append(checks, c), ctx.Err()
}

// guarantee is a guarantee with its check.
type guarantee struct {
	name, text string
	check      func(v *verifier, ctx context.Context) (result, why string)
}

// guarantees are in the order of the checks. The check of expiry takes the time that is left.
var guarantees = []guarantee{
	{"asked", "a call that needs approval does not run, and gets a pending approval", (*verifier).checkAsked},
	{"pending", "a pending approval runs nothing", (*verifier).checkPending},
	{"once", "an approved call runs", (*verifier).checkOnce},
	{"replay", "an approval that was used runs nothing", (*verifier).checkReplay},
	{"arguments", "an approval runs no call with other arguments", (*verifier).checkArguments},
	{"user", "an approval runs no call of another user", (*verifier).checkUser},
	{"agent", "an approval runs no call of another agent", (*verifier).checkAgent},
	{"session", "an approval runs no call of another session", (*verifier).checkSession},
	{"denial", "a denied call does not run, and its caller gets the reason", (*verifier).checkDenial},
	{"one redemption", "of concurrent calls with one approval, one runs", (*verifier).checkRedemptions},
	{"one answer", "of concurrent answers to one approval, one counts", (*verifier).checkAnswers},
}

// skipRest adds the checks that make no sense without approvals.
func skipRest(checks []Check) []Check {
	for _, of := range guarantees[len(checks):] {
		checks = append(checks, Check{of.name, of.text, NotChecked, "the call does not require approval"})
	}
	return append(checks, Check{"expiry", "an approval that has expired cannot be used or answered", NotChecked,
		"the call does not require approval"})
}
