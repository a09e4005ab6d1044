package approving

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
)

// viewer is who asks, and so what there is for it.
type viewer struct {
	tenant  string
	user    string // "": all users
	answers bool
}

func (v *viewer) sees(a *approvals.Approval) bool {
	return a.Tenant == v.tenant && (v.user == "" || a.User == v.user)
}

// ofOperators is everybody who reaches the operators' port.
func ofOperators(_ context.Context, tenantName string) (viewer, error) {
	if tenantName == "" {
		tenantName = tenant.Default
	}
	return viewer{tenant: tenantName, answers: true}, nil
}

// ofCallers is who calls at the public port, as the gateway says.
func ofCallers(ctx context.Context, tenantName string) (viewer, error) {
	in, _ := metadata.FromIncomingContext(ctx)
	text := in.Get(tenant.Metadata)
	if len(text) != 1 {
		return viewer{}, errNobody
	}
	who, ok := tenant.ParseIdentity(text[0])
	if !ok {
		return viewer{}, errNobody
	}
	if tenantName != "" && tenantName != who.Tenant {
		return viewer{}, refusedUnknown
	}
	return viewer{tenant: who.Tenant, user: who.User, answers: mayAnswer(who)}, nil
}

// mayAnswer says whether a caller may answer what others, or it itself, want approved.
// Nobody may: callers have no credentials, so that whoever asks could say that it is its
// own approver. A scope of a verified credential would be looked at here.
func mayAnswer(tenant.Identity) bool { return false }

var (
	errNobody = status.Error(codes.Internal, "it is not known who asks")

	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "APPROVAL_UNKNOWN", Message: "there is no such approval"}
	refusedAnswer  = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "approvals are answered at the operators' port: here nobody can tell the person who answers from the agent that asks"}
)
