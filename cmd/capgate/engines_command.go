package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

const enginesUsage = `Usage: capgate engines list [flags]
       capgate engines status ENGINE [flags]
       capgate engines sessions ENGINE [flags]
       capgate engines history ENGINE SESSION [flags]
       capgate engines send ENGINE MESSAGE [flags]

Talks with OpenParallax engines through a gateway. send streams the answer to standard output;
other events, such as approvals that a person has to answer, go to standard error. If an answer
was cut off, look into history before you send the message again: the engine may have it.

Exit status: 0 on success; 1 if the gateway rejected the request or the engine failed; 2 for a
wrong command line; 3 if the gateway could not be reached.

Flags:
`

// enginesCommand is capgate engines.
type enginesCommand struct {
	words         []string
	session, mode string
	from          *caller
	catalog       capgatepb.CatalogClient
	client        openparallaxv1.ClientServiceClient
	std           stdio
}

func runEngines(ctx context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("engines", flag.ContinueOnError)
	c := enginesCommand{std: std, from: addCaller(fs)}
	fs.StringVar(&c.session, "session", "", "send: `id` of the session; default a new one")
	fs.StringVar(&c.mode, "mode", "NORMAL", "send: `mode` of the session: NORMAL, OTR (off the record) or HEARTBEAT")
	all := verbs{
		flags: fs, usage: enginesUsage, from: c.from,
		all: []verb{
			{name: "list", run: soon(c.list)},
			{name: "status", words: 1, run: soon(c.status)},
			{name: "sessions", words: 1, run: soon(c.sessions)},
			{name: "history", words: 2, run: soon(c.history)},
			{name: "send", words: 2, run: c.send, takes: []string{"session", "mode"}},
		},
		take: func(_ string, words []string) error {
			if c.words = words; openparallaxv1.SessionMode_value[c.mode] == 0 {
				return fmt.Errorf("--mode %q: want NORMAL, OTR or HEARTBEAT", c.mode)
			}
			return nil
		},
		dial: func(conn grpc.ClientConnInterface) {
			c.catalog, c.client = capgatepb.NewCatalogClient(conn), openparallaxv1.NewClientServiceClient(conn)
		},
	}
	return all.run(ctx, args, std)
}

// toEngine is ctx for calls of the engine that the line names.
func (c *enginesCommand) toEngine(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(c.from.shown(ctx), "x-capability-id", c.words[0],
		"x-session-modes", "source")
}

func (c *enginesCommand) list(ctx context.Context) error {
	for token := ""; ; {
		page, err := c.catalog.ListEngines(c.from.shown(ctx),
			&capgatepb.ListEnginesRequest{PageSize: 200, PageToken: token})
		if err != nil {
			return err
		}
		for _, e := range page.GetEngines() {
			fmt.Fprintln(c.std.out, word(e.GetId()))
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

func (c *enginesCommand) status(ctx context.Context) error {
	s, err := c.client.GetStatus(c.toEngine(ctx), &openparallaxv1.StatusRequest{})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.std.out, 0, 0, 2, ' ', 0)
	shield := "none"
	if s.GetShieldConnected() {
		shield = fmt.Sprintf("connected, up to tier %d", s.GetShieldMaxTier())
	}
	fmt.Fprintf(table, "agent\t%s\nmodel\t%s\nshield\t%s\nup\t%s\nsessions\t%d\n", word(s.GetAgentName()),
		word(s.GetModel()), shield,
		time.Duration(s.GetUptimeSeconds())*time.Second, s.GetSessionCount())
	return table.Flush()
}

func (c *enginesCommand) sessions(ctx context.Context) error {
	all, err := c.client.ListSessions(c.toEngine(ctx), &openparallaxv1.ListSessionsRequest{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SESSION\tMODE\tMESSAGES\tUPDATED\tTITLE")
	for _, s := range all.GetSessions() {
		mode := openparallaxv1.SessionMode_name[int32(s.GetMode())]
		if s.GetMode() == openparallaxv1.SessionMode_SESSION_MODE_UNSPECIFIED {
			mode = ""
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", word(s.GetId()), orDash(mode), s.GetMessageCount(),
			at(s.GetUpdatedAt()), beginning(s.GetTitle(), 60))
	}
	return table.Flush()
}

// at is a time of an engine's.
func at(seconds int64) string {
	if seconds == 0 {
		return "-"
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
}

func (c *enginesCommand) history(ctx context.Context) error {
	all, err := c.client.GetHistory(c.toEngine(ctx),
		&openparallaxv1.GetHistoryRequest{SessionId: c.words[1], Limit: math.MaxInt32})
	for _, m := range all.GetMessages() {
		fmt.Fprintf(c.std.out, "%s %s: %s\n", at(m.GetTimestamp()), word(m.GetRole()), lines(m.GetContent(), 4))
	}
	return err
}

func (c *enginesCommand) send(ctx context.Context) error {
	stream, err := c.client.SendMessage(c.toEngine(ctx), &openparallaxv1.ClientMessageRequest{
		Content: c.words[1], SessionId: c.session, Source: "cli",
		Mode: openparallaxv1.SessionMode(openparallaxv1.SessionMode_value[c.mode]),
	})
	if err != nil {
		return err
	}
	heard := new(engineStream)
	for {
		e, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(c.std.out)
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
		return fmt.Errorf("the engine failed: %s (%s)", word(t.fault.GetPipelineError().GetMessage()),
			word(t.fault.GetPipelineError().GetCode()))
	case !t.complete:
		return errors.New("the answer was cut off")
	}
	return nil
}

// print prints the answer, and to standard error what else a person wants to know.
func (c *enginesCommand) print(e *openparallaxv1.PipelineEvent, heard *engineStream) {
	switch e.GetEventType() {
	case openparallaxv1.PipelineEventType_LLM_TOKEN:
		heard.any = true
		fmt.Fprint(c.std.out, visible(e.GetLlmToken().GetText()))
	case openparallaxv1.PipelineEventType_RESPONSE_COMPLETE:
		if !heard.any {
			fmt.Fprint(c.std.out, visible(e.GetResponseComplete().GetContent()))
		}
	case openparallaxv1.PipelineEventType_APPROVAL_NEEDED:
		fmt.Fprintf(c.std.err, "\napproval needed: %s (until %s)\n",
			beginning(e.GetApprovalNeeded().GetContextSummary(), 200),
			at(e.GetApprovalNeeded().GetTimeoutAt()))
	case openparallaxv1.PipelineEventType_ACTION_STARTED:
		fmt.Fprintf(c.std.err, "[%s %s]\n", strings.ToLower(e.GetActionStarted().GetActionType().String()),
			beginning(e.GetActionStarted().GetSummary(), 60))
	}
}
