package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/lib/plainjson"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const invokeHelp = `ARGS is a JSON object, or - to read one from standard input; {} if omitted. The result is printed as
JSON. With --stream each chunk is one line: the chunk itself if it is JSON, otherwise a JSON string,
or {"data_base64": ...} for binary data.

A call that needs approval does not run; the output shows how to approve it. After the approval,
--approval ID runs the call once. --wait waits for the approval instead.`

const invokeExample = `  capgate invoke weather get_current_weather '{"location":"Berlin"}'
  capgate invoke --stream weather get_forecast '{"location":"Lima","days":3}'`

// invocation is one call as the command line describes it.
type invocation struct {
	req     *docpb.InvokeRequest
	stream  bool
	timeout time.Duration
	from    *gatewayPort

	configFile string // of config_json

	wait        bool // for a person's answer
	waitGiven   bool // --wait has a duration
	waiting     bool // the call goes on when it is approved
	waitTimeout time.Duration
	said        []string // names and values of metadata
	errs        io.Writer
}

// toolError is a failure that the tool reported.
type toolError string

func (e toolError) Error() string { return string(e) }

// newInvokeCommand returns the command capgate invoke. The result goes to standard output, errors to standard error.
func newInvokeCommand(std stdio) *cobra.Command {
	inv := &invocation{req: new(docpb.InvokeRequest), errs: std.err}
	c := &cobra.Command{Use: "invoke CAPABILITY TOOL [ARGS]", Short: "call a tool through a gateway", Long: invokeHelp,
		Example: invokeExample}
	c.Args = inv.checkArgs
	fs := c.Flags()
	inv.from = addPublic(c)
	fs.BoolVar(&inv.stream, "stream", false, "use StreamInvoke, and print chunks as they arrive")
	fs.DurationVar(&inv.timeout, "timeout", 30*time.Second, "give up after this `duration`; 0: never")
	fs.StringVar(&inv.req.SessionId, "session", "", "session `id` of the call")
	inv.addApprovalFlags(fs)
	fs.StringVar(&inv.configFile, "config-json-file", "",
		"`file` with the JSON object for config_json (a file, because it may contain secrets)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := inv.take(fs, args, std.in); err != nil {
			return exitError{exitUsage, err}
		}
		return inv.explained(c.Context(), inv.run(c.Context(), std.out))
	}
	return exits(c, "0 success; 1 the tool failed, the call needs approval, or it was rejected; 2 wrong\n"+
		"command line; 3 "+callAway+".")
}

// explained turns the error of a call into one that says what to do.
func (inv *invocation) explained(ctx context.Context, err error) error {
	var failed toolError
	switch {
	case err == nil:
		return nil
	case notRun(err):
		return refused("%s", inv.howToRun(err))
	case errors.As(err, &failed):
		return exitError{exitRefused, plainError{fmt.Errorf("%s: %w", inv.req.GetToolName(), failed)}}
	}
	return inv.from.explained(ctx, err)
}

// take reads the command line, and the files and the standard input that it names.
func (inv *invocation) take(fs *pflag.FlagSet, args []string, stdin io.Reader) (err error) {
	if inv.timeout < 0 {
		return errors.New("--timeout must not be negative")
	}
	if err = inv.checkWait(fs); err != nil {
		return err
	}
	inv.req.CapabilityId, inv.req.ToolName = args[0], args[1]
	if inv.req.ArgsJson, err = readArgs(args[2:], stdin); err != nil {
		return err
	}
	if inv.configFile != "" {
		if inv.req.ConfigJson, err = readConfig(inv.configFile); err != nil {
			return err
		}
	}
	return inv.from.read()
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
		return nil, errors.New(notObject("ARGS", args))
	}
	return args, nil
}

// readConfig never puts the file's content into an error: it may be a secret.
func readConfig(file string) ([]byte, error) {
	config, err := os.ReadFile(file) //nolint:gosec // the user's own file, named by the user
	if err != nil {
		return nil, fmt.Errorf("--config-json-file: %s cannot be read: %w", file, reasonOf(err))
	}
	if !isObject(config) {
		return nil, fmt.Errorf("--config-json-file: %s is not a JSON object", file)
	}
	return config, nil
}

// notObject says where text, which may be shown, stops being a JSON object.
func notObject(what string, text []byte) string {
	var v map[string]any
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(text, &v), &syntax) {
		return fmt.Sprintf(`%s is not a JSON object: at byte %d: %v; write it as in '{"location":"Berlin"}'`, what,
			syntax.Offset, syntax)
	}
	return what + ` is not a JSON object; write it as in '{"location":"Berlin"}'`
}

func isObject(text []byte) bool {
	return json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}

// run makes the call and prints the answer.
func (inv *invocation) run(ctx context.Context, stdout io.Writer) error {
	conn, err := inv.from.dial("")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx = metadata.AppendToOutgoingContext(ctx, inv.said...)
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
			return exitError{exitUnreachable,
				errors.New("the stream ended before its last chunk; the result is incomplete")}
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
	var value any = string(data)
	if !utf8.Valid(data) {
		value = map[string][]byte{"data_base64": data}
	}
	text, _ := plainjson.Marshal(value) // strings and bytes always have JSON
	return append(text, '\n')
}
