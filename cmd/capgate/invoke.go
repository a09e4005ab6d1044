package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Exit statuses of capgate invoke, beside 0.
const (
	exitToolError = 1 // the tool ran and failed
	exitNotRun    = 1 // a person has to approve the call first, or denied it
	exitUsage     = 2 // the command line cannot be understood; nothing was sent
	exitTransport = 3 // the gateway was not reached, refused, or cut the answer off
)

const invokeUsage = `Usage: capgate invoke [flags] CAPABILITY TOOL [ARGS]

Calls a tool through a gateway and prints its result as JSON. ARGS is a JSON object, or - to
read one from standard input; {} if omitted. With --stream it prints one line per chunk: the
chunk itself if it is JSON, otherwise a JSON string, or {"data_base64": ...} for binary data.

A call that needs approval does not run; the output shows how to approve it. After the approval,
--approval ID runs the call once. --wait waits for the approval instead.

Exit status: 0 on success; 1 if the tool failed, or the call needs approval or was denied; 2 for
a wrong command line; 3 if the gateway could not be reached or rejected the call.

Flags:
`

// invocation is one call as the command line describes it.
type invocation struct {
	req     *docpb.InvokeRequest
	stream  bool
	timeout time.Duration
	from    *caller

	wait        bool // for a person's answer
	waitTimeout time.Duration
	said        []string // names and values of metadata
	errs        io.Writer
}

// toolError is a failure that the tool reported.
type toolError string

func (e toolError) Error() string { return string(e) }

// runInvoke is capgate invoke. The answer goes to stdout, anything wrong to stderr.
func runInvoke(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	inv, err := parseInvoke(args, stdin, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "capgate invoke: %v\nTry: capgate invoke -h\n", err)
		return exitUsage
	}
	inv.errs = stderr
	err = inv.run(ctx, stdout)
	var failed toolError
	switch {
	case err == nil:
		return 0
	case notRun(err):
		fmt.Fprintf(stderr, "capgate invoke: %s\n", inv.howToRun(err))
		return exitNotRun
	case errors.As(err, &failed):
		fmt.Fprintf(stderr, "%s: %s\n", inv.req.GetToolName(), failed)
		return exitToolError
	default:
		fmt.Fprintf(stderr, "capgate invoke: %s\n", inv.from.explain(ctx, err))
		return exitTransport
	}
}

// parseInvoke reads the command line, and the files and the standard input that it
// names. It prints the usage to help if asked to.
func parseInvoke(args []string, stdin io.Reader, help io.Writer) (*invocation, error) {
	inv := &invocation{req: new(docpb.InvokeRequest)}
	fs := flag.NewFlagSet("invoke", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are the caller's to print, once
	inv.from = addCaller(fs)
	fs.BoolVar(&inv.stream, "stream", false, "use StreamInvoke, and print chunks as they arrive")
	fs.DurationVar(&inv.timeout, "timeout", 30*time.Second, "give up after this `duration`; 0: never")
	fs.StringVar(&inv.req.SessionId, "session", "", "session `id` of the call")
	inv.addApprovalFlags(fs)
	configFile := fs.String("config-json-file", "",
		"`file` with the JSON object for config_json (a file, because it may contain secrets)")

	positional, err := parseFlags(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(help)
		fmt.Fprint(help, invokeUsage)
		fs.PrintDefaults()
	}
	if err != nil {
		return nil, err
	}
	switch {
	case len(positional) < 2 || len(positional) > 3:
		return nil, fmt.Errorf("want CAPABILITY TOOL [ARGS], got %d arguments", len(positional))
	case positional[0] == "" || positional[1] == "":
		return nil, errors.New("CAPABILITY and TOOL must not be empty")
	case inv.timeout < 0:
		return nil, errors.New("--timeout must not be negative")
	case given(fs, "wait-timeout") && !inv.wait:
		return nil, errors.New("--wait-timeout requires --wait")
	case inv.waitTimeout <= 0:
		return nil, errors.New("--wait-timeout must be more than 0s")
	}
	inv.req.CapabilityId, inv.req.ToolName = positional[0], positional[1]
	if inv.req.ArgsJson, err = readArgs(positional[2:], stdin); err != nil {
		return nil, err
	}
	if *configFile != "" {
		if inv.req.ConfigJson, err = readConfig(*configFile); err != nil {
			return nil, err
		}
	}
	return inv, inv.from.read()
}

// readArgs answers with the tool's arguments: those given, if any, or from stdin.
func readArgs(given []string, stdin io.Reader) ([]byte, error) {
	if len(given) == 0 {
		return []byte("{}"), nil
	}
	args := []byte(given[0])
	if given[0] == "-" {
		var err error
		if args, err = io.ReadAll(stdin); err != nil {
			return nil, fmt.Errorf("read ARGS from standard input: %w", err)
		}
	}
	if !isObject(args) {
		return nil, errors.New("ARGS is not a JSON object")
	}
	return args, nil
}

// readConfig never puts the file's content into an error: it may be a secret.
func readConfig(file string) ([]byte, error) {
	config, err := os.ReadFile(file) //nolint:gosec // the user's own file, named by the user
	if err != nil {
		return nil, fmt.Errorf("--config-json-file: %w", err)
	}
	if !isObject(config) {
		return nil, fmt.Errorf("--config-json-file: %s is not a JSON object", file)
	}
	return config, nil
}

func isObject(text []byte) bool {
	return json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}

// run makes the call and prints the answer.
func (inv *invocation) run(ctx context.Context, stdout io.Writer) error {
	conn, err := inv.from.dial("capgate-invoke")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx = metadata.AppendToOutgoingContext(inv.from.shown(ctx), inv.said...)
	client := docpb.NewCapabilityClient(conn)
	err = inv.once(ctx, client, stdout)
	if id := askedIn(err); id != "" && inv.wait {
		return inv.await(ctx, client, stdout, err)
	}
	return err
}

// once makes the call once.
func (inv *invocation) once(ctx context.Context, client docpb.CapabilityClient, stdout io.Writer) error {
	if inv.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inv.timeout)
		defer cancel()
	}
	if inv.stream {
		return inv.printStream(ctx, client, stdout)
	}
	resp, err := client.Invoke(ctx, inv.req)
	if err != nil {
		return err
	}
	if resp.GetError() != "" {
		return toolError(resp.GetError())
	}
	var out bytes.Buffer
	if err := json.Indent(&out, resp.GetResultJson(), "", "  "); err != nil {
		return errors.New("the result is not JSON")
	}
	out.WriteByte('\n')
	_, err = stdout.Write(out.Bytes())
	return err
}

// printStream prints chunks as they arrive. A stream is complete only if it ends with status OK after a chunk with
// done set.
func (inv *invocation) printStream(ctx context.Context, client docpb.CapabilityClient, stdout io.Writer) error {
	stream, err := client.StreamInvoke(ctx, inv.req)
	if err != nil {
		return err
	}
	for done := false; ; {
		chunk, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && !done:
			return errors.New("the stream ended before its last chunk; the result is incomplete")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if len(chunk.GetData()) > 0 {
			if _, err := stdout.Write(chunkLine(chunk.GetData())); err != nil {
				return err
			}
		}
		if chunk.GetError() != "" {
			return toolError(chunk.GetError())
		}
		done = done || chunk.GetDone()
	}
}

// chunkLine returns any chunk as one line of JSON.
func chunkLine(data []byte) []byte {
	var line bytes.Buffer
	if err := json.Compact(&line, data); err == nil {
		line.WriteByte('\n')
		return line.Bytes()
	}
	line.Reset()
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	var value any = string(data)
	if !utf8.Valid(data) {
		value = map[string][]byte{"data_base64": data}
	}
	_ = enc.Encode(value) // strings and bytes always encode, and a Buffer takes them
	return line.Bytes()
}

// describeStatus returns a call's gRPC code and message, and the reason if the gateway rejected the call.
func describeStatus(err error) string {
	st, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	text := fmt.Sprintf("%s: %s", st.Code(), st.Message())
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			text += fmt.Sprintf(" (%s)", info.GetReason())
		}
	}
	return text
}
