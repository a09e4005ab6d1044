package agent

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// RunSub runs a sub-agent: it registers with a token, runs the task, and reports the result. Its script: a task "tool:
// NAME ARGUMENTS" returns that tool's result, "fail" fails, and any other task succeeds at once. The result includes
// messages that the agent sent meanwhile.
func RunSub(ctx context.Context, conn grpc.ClientConnInterface, token string) error {
	client := openparallaxv1.NewSubAgentServiceClient(conn)
	me, err := client.RegisterSubAgent(ctx, &openparallaxv1.SubAgentRegisterRequest{Token: token})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	verb, rest, _ := strings.Cut(me.GetTask(), ":")
	result := "did " + me.GetTask()
	switch verb {
	case "fail":
		_, err := client.SubAgentFailed(ctx,
			&openparallaxv1.SubAgentFailedRequest{Name: me.GetName(), Error: "cannot do that"})
		return err
	case "tool":
		name, args, _ := strings.Cut(strings.TrimSpace(rest), " ")
		reply, err := client.SubAgentExecuteTool(ctx, &openparallaxv1.SubAgentToolRequest{
			Name: me.GetName(), CallId: "1", ToolName: name, ArgumentsJson: args,
		})
		if err != nil {
			return fmt.Errorf("run %s: %w", name, err)
		}
		result = reply.GetContent()
	}
	for {
		more, err := client.SubAgentPollMessage(ctx, &openparallaxv1.SubAgentPollRequest{Name: me.GetName()})
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		if !more.GetHasMessage() {
			break
		}
		result += ", and " + more.GetContent()
	}
	_, err = client.SubAgentComplete(ctx, &openparallaxv1.SubAgentCompleteRequest{Name: me.GetName(), Result: result})
	return err
}
