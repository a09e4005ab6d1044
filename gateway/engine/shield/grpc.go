package shield

import (
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/policy/extauthz"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// maxReply is the maximum size of a reply of Shield, in bytes.
const maxReply = 64 << 10

// grpcClient is the client of Shield's gRPC API.
type grpcClient struct {
	conn   *grpc.ClientConn
	client openparallaxv1.ShieldServiceClient
}

func newGRPC(addr string, secure *tls.Config) (*grpcClient, error) {
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	// With passthrough, the name is resolved at each dial. Keepalive pings detect a dead connection. They are only
	// sent during requests, so that servers do not consider them abuse.
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithUserAgent(buildinfo.UserAgent("capgate-shield")),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
	if err != nil {
		return nil, err
	}
	return &grpcClient{conn, openparallaxv1.NewShieldServiceClient(conn)}, nil
}

func (g *grpcClient) Close() { g.conn.Close() }

// decisions maps the decisions of the protocol. Other decisions are malformed.
var decisions = map[openparallaxv1.VerdictDecision]call.Verdict{
	openparallaxv1.VerdictDecision_ALLOW:    call.Allow,
	openparallaxv1.VerdictDecision_BLOCK:    call.Block,
	openparallaxv1.VerdictDecision_ESCALATE: call.Ask,
}

func (g *grpcClient) Evaluate(ctx context.Context, a *extauthz.Action) (*extauthz.Reply, error) {
	args := string(a.Args)
	answer, err := g.client.Evaluate(ctx, &openparallaxv1.EvaluateRequest{
		ActionType: a.Kind, PayloadJson: args, ToolName: a.Tool, ToolArgsJson: args,
	})
	if err != nil {
		return nil, grpcFailure(err)
	}
	v := answer.GetVerdict()
	decision, ok := decisions[v.GetDecision()]
	if !ok {
		return nil, extauthz.Malformed("an unknown decision")
	}
	return &extauthz.Reply{
		Verdict: decision, Reasoning: v.GetReasoning(), ActionHash: v.GetActionHash(),
		Evaluated: timeOf(v.GetEvaluatedAt()), Expires: timeOf(v.GetExpiresAt()),
	}, nil
}

// grpcFailure distinguishes an unreachable Shield from a malformed reply. It omits the status message, which may quote
// arguments.
func grpcFailure(err error) error {
	code := status.Code(err)
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return extauthz.Unreachable("gRPC status " + code.String())
	}
	return extauthz.Malformed("gRPC status " + code.String())
}
