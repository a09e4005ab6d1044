package verify

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// attempt is one call.
type attempt struct {
	args        []byte // nil: those of Config
	session     string // after the prefix
	user, agent string // "": those of Config
	approval    string // "": none
	replica     int
}

// ending is the end of an attempt.
type ending struct {
	ran    bool              // a backend may have got the call
	reason string            // of the gateway's refusal; "" if there is none
	info   map[string]string // its metadata
	text   string            // of an error
	err    error             // of the call
}

// try makes a call.
func (v *verifier) try(ctx context.Context, a attempt) ending {
	if v.Credential != nil {
		ctx = v.Credential(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	said := []string{"x-approval-wait", "0"}
	for _, of := range [][3]string{{"x-user-id", a.user, v.Call.User}, {"x-agent-id", a.agent, v.Call.Agent},
		{"x-approval-id", a.approval, ""}} {
		if value := first(of[1], of[2]); value != "" {
			said = append(said, of[0], value)
		}
	}
	args := a.args
	if args == nil {
		args = v.Call.Args
	}
	_, err := v.Callers[a.replica%len(v.Callers)].Invoke(metadata.AppendToOutgoingContext(ctx, said...),
		&docpb.InvokeRequest{CapabilityId: v.Call.Capability, ToolName: v.Call.Tool, ArgsJson: args,
			SessionId: v.session + "-" + a.session})
	if err == nil {
		return ending{ran: true} // even if the tool reports an error
	}
	info := status.InfoOf(err)
	return ending{reason: info.GetReason(), info: info.GetMetadata(), text: grpcstatus.Convert(err).Message(), err: err}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// refused returns the result of a check that requires a refusal for one of the reasons.
func (e ending) refused(reasons ...string) (result, why string) {
	switch {
	case e.ran:
		return Fail, "the call ran"
	case slices.Contains(reasons, e.reason):
		return Pass, ""
	case strings.HasPrefix(e.reason, "APPROVAL_"):
		return Fail, "it was refused with " + e.reason + ", not with " + strings.Join(reasons, " or ")
	}
	return NotChecked, e.unclear()
}

// unclear describes an ending that says nothing about approvals.
func (e ending) unclear() string {
	if e.ran {
		return "the call ran"
	}
	if e.reason == "" {
		return "the call failed: " + e.text
	}
	return "the call was refused with " + e.reason + ": " + e.text
}
