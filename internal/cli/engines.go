package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/lib/untrusted"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

const sendHelp = `The answer is streamed to standard output; other events, such as approvals that a person has to
answer, go to standard error. If an answer was cut off, look into history before you send the
message again: the engine may have it.`

// enginesCommand is capgate engines.
type enginesCommand struct {
	output
	session, mode string
}

// newEnginesCommand returns the command capgate engines.
func newEnginesCommand(std stdio) *cobra.Command {
	c := &enginesCommand{output: output{stdio: std}}
	send := overPublic("send ENGINE MESSAGE", "send a message, and stream the answer", 0, c.send, c.sendFlags)
	send.Long = sendHelp
	return parent("engines", "talk with OpenParallax engines through a gateway", "",
		overPublic("list", "list engines", requestTimeout, c.list, c.addFlags),
		overPublic("status ENGINE", "show the state of an engine", requestTimeout, c.status, c.addFlags),
		overPublic("sessions ENGINE", "list the sessions of an engine", requestTimeout, c.sessions, c.addFlags),
		overPublic("history ENGINE SESSION", "show the messages of a session", requestTimeout, c.history, c.addFlags),
		send)
}

func (c *enginesCommand) sendFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.session, "session", "", "`id` of the session; default a new one")
	fs.StringVar(&c.mode, "mode", "NORMAL", "`mode` of the session: NORMAL, OTR (off the record) or HEARTBEAT")
}

// toEngine is ctx for calls of an engine.
func toEngine(ctx context.Context, engine string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-capability-id", engine, "x-session-modes", "source")
}

func (c *enginesCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, _ []string) error {
	all := new(capgatepb.ListEnginesResponse)
	err := pages(func(token string) (string, error) {
		page, err := capgatepb.NewCatalogClient(conn).ListEngines(cmd.Context(),
			&capgatepb.ListEnginesRequest{PageSize: 200, PageToken: token})
		all.Engines = append(all.Engines, page.GetEngines()...)
		return page.GetNextPageToken(), err
	})
	return c.result(all, err, func(w io.Writer) {
		t := newTable("ENGINE")
		t.none = "no engines"
		for _, e := range all.GetEngines() {
			t.row(e.GetId())
		}
		t.print(w)
	})
}

func (c *enginesCommand) status(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	s, err := openparallaxv1.NewClientServiceClient(conn).GetStatus(toEngine(cmd.Context(), args[0]),
		&openparallaxv1.StatusRequest{})
	if err != nil {
		return err
	}
	shield := "none"
	if s.GetShieldConnected() {
		shield = fmt.Sprintf("connected, up to tier %d", s.GetShieldMaxTier())
	}
	return c.data(s, func(w io.Writer) {
		details(w, [2]string{"agent", untrusted.Word(s.GetAgentName())},
			[2]string{"model", untrusted.Word(s.GetModel())}, [2]string{"shield", shield},
			[2]string{"up", short(time.Duration(s.GetUptimeSeconds()) * time.Second)},
			[2]string{"sessions", fmt.Sprint(s.GetSessionCount())})
	})
}

func (c *enginesCommand) sessions(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	all, err := openparallaxv1.NewClientServiceClient(conn).ListSessions(toEngine(cmd.Context(), args[0]),
		&openparallaxv1.ListSessionsRequest{Limit: math.MaxInt32})
	return c.result(all, err, func(w io.Writer) {
		t := newTable("SESSION", "MODE", "MESSAGES", "UPDATED", "TITLE").on(c.out, "no sessions")
		for _, s := range all.GetSessions() {
			mode := openparallaxv1.SessionMode_name[int32(s.GetMode())]
			if s.GetMode() == openparallaxv1.SessionMode_SESSION_MODE_UNSPECIFIED {
				mode = ""
			}
			t.row(s.GetId(), mode, s.GetMessageCount(), ageOf(at(s.GetUpdatedAt())),
				untrusted.Beginning(s.GetTitle(), 60))
		}
		t.print(w)
	})
}

func (c *enginesCommand) history(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	all, err := openparallaxv1.NewClientServiceClient(conn).GetHistory(toEngine(cmd.Context(), args[0]),
		&openparallaxv1.GetHistoryRequest{SessionId: args[1], Limit: math.MaxInt32})
	return c.result(all, err, func(w io.Writer) {
		for _, m := range all.GetMessages() {
			fmt.Fprintf(w, "%s %s: %s\n", when(at(m.GetTimestamp())), untrusted.Word(m.GetRole()),
				untrusted.Lines(m.GetContent(), 4))
		}
	})
}

func (c *enginesCommand) send(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	mode := openparallaxv1.SessionMode(openparallaxv1.SessionMode_value[c.mode])
	if mode == openparallaxv1.SessionMode_SESSION_MODE_UNSPECIFIED {
		return usageError("--mode %q: want NORMAL, OTR or HEARTBEAT", c.mode)
	}
	stream, err := openparallaxv1.NewClientServiceClient(conn).SendMessage(toEngine(cmd.Context(), args[0]),
		&openparallaxv1.ClientMessageRequest{Content: args[1], SessionId: c.session, Source: "cli", Mode: mode})
	if err != nil {
		return err
	}
	heard := new(engineStream)
	for {
		e, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(c.out)
			return heard.end()
		case err != nil:
			return err
		}
		heard.handle(e)
		c.print(e, heard)
	}
}

// engineStream is the state of an engine's streamed answer.
type engineStream struct {
	any, complete bool
	fault         *openparallaxv1.PipelineEvent // the last event, if it is that the engine failed
}

func (t *engineStream) handle(e *openparallaxv1.PipelineEvent) {
	t.fault = nil
	if e.GetEventType() == openparallaxv1.PipelineEventType_ERROR {
		t.fault = e
	}
	t.complete = t.complete || e.GetEventType() == openparallaxv1.PipelineEventType_RESPONSE_COMPLETE
}

func (t *engineStream) end() error {
	switch {
	case t.fault != nil:
		return fmt.Errorf("the engine failed: %s (%s)", untrusted.Word(t.fault.GetPipelineError().GetMessage()),
			untrusted.Word(t.fault.GetPipelineError().GetCode()))
	case !t.complete:
		return errors.New("the answer was cut off")
	}
	return nil
}

// print prints the answer to standard output, and other events that a person needs to standard error.
func (c *enginesCommand) print(e *openparallaxv1.PipelineEvent, heard *engineStream) {
	switch e.GetEventType() {
	case openparallaxv1.PipelineEventType_LLM_TOKEN:
		heard.any = true
		fmt.Fprint(c.out, untrusted.Visible(e.GetLlmToken().GetText()))
	case openparallaxv1.PipelineEventType_RESPONSE_COMPLETE:
		if !heard.any {
			fmt.Fprint(c.out, untrusted.Visible(e.GetResponseComplete().GetContent()))
		}
	case openparallaxv1.PipelineEventType_APPROVAL_NEEDED:
		fmt.Fprintf(c.err, "\napproval needed: %s (until %s)\n",
			untrusted.Beginning(e.GetApprovalNeeded().GetContextSummary(), 200),
			when(at(e.GetApprovalNeeded().GetTimeoutAt())))
	case openparallaxv1.PipelineEventType_ACTION_STARTED:
		fmt.Fprintf(c.err, "[%s %s]\n", strings.ToLower(e.GetActionStarted().GetActionType().String()),
			untrusted.Beginning(e.GetActionStarted().GetSummary(), 60))
	}
}
