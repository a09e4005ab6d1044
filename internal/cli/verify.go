package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/verify"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const verifyHelp = `It calls one tool through the gateway, answers as an operator, and shows which guarantees hold:
a call waits for its approval; an approval runs once, and no other call; of concurrent uses and answers, one
counts; a denial reaches the caller; an expired approval cannot be used.

The tool really runs, seven or eight times with --args, and with --other-args if a guarantee is broken.
Name one that only reads. Its policy must be "ask"; the command checks this before the first call.
Without --capability and --tool, the command lists the tools whose policy is "ask", and calls none.

The command creates up to 15 approvals, and notices of each are sent to the configured destinations. It
ends all of them: it denies the pending ones and runs the calls of the approved ones. The output lists
any that remain.

--config reads the addresses of the gateway from its configuration. --replica names the public port of
another replica, which gets half of the calls.`

const verifyExample = `  capgate verify --capability weather --tool get_forecast --args '{"location":"Berlin"}'
  capgate verify --config capgate.yaml --capability weather --tool get_forecast --wait-expiry 11m`

// verifyCommand is capgate verify.
type verifyCommand struct {
	output
	call            verify.Call
	args, otherArgs string
	config, replica string
	wait            time.Duration
	from, admin     *gatewayPort
}

// verified is the result as data.
type verified struct {
	Gateway    string         `json:"gateway"`
	Capability string         `json:"capability"`
	Tool       string         `json:"tool"`
	Checks     []verify.Check `json:"checks"`
	Passed     int            `json:"passed"`
	Failed     int            `json:"failed"`
	NotChecked int            `json:"not_checked"`
	Approvals  int            `json:"approvals"` // number of created approvals
	Left       []string       `json:"left"`      // ids of approvals that could not be ended; they expire
}

// newVerifyCommand returns the command capgate verify.
func newVerifyCommand(std stdio) *cobra.Command {
	v := &verifyCommand{output: output{stdio: std}}
	c := &cobra.Command{Use: "verify", Short: "check the guarantees of approvals against a running gateway",
		Long: verifyHelp, Example: verifyExample}
	v.from, v.admin = addPublic(c), addPort(c, true, "admin-")
	v.verifyFlags(c.Flags())
	v.addFlags(c.Flags())
	completeOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := v.take(c.Flags()); err != nil {
			return exitError{exitUsage, err}
		}
		return v.run(c.Context())
	}
	return exits(c, "0 every guarantee that was checked holds; 1 one does not, or nothing could be checked;\n"+
		"2 wrong command line; 3 "+gatewayAway+".")
}

func (v *verifyCommand) verifyFlags(fs *pflag.FlagSet) {
	fs.StringVar(&v.config, "config", "", "configuration `file` of the gateway, for its addresses")
	fs.StringVar(&v.replica, "replica", "", "`host:port` of another replica's public port, for half of the calls")
	fs.StringVar(&v.call.Capability, "capability", "", "`id` of the capability")
	fs.StringVar(&v.call.Tool, "tool", "", "`name` of the tool, which should only read")
	fs.StringVar(&v.args, "args", "{}", "`JSON` object with the tool's arguments")
	fs.StringVar(&v.otherArgs, "other-args", "",
		"`JSON` object with other valid arguments; default --args with one value changed")
	fs.StringVar(&v.call.Tenant, "tenant", "", "`id` of the caller's tenant, in a gateway with tenants")
	fs.StringVar(&v.call.User, "user", "", "`name` of the user who calls, if the key may assert it")
	fs.StringVar(&v.call.Agent, "agent", "", "`name` of the agent that calls, if the key may assert it")
	fs.DurationVar(&v.wait, "wait-expiry", 0,
		"maximum `duration` to wait for approvals to expire; 0: expiry is not checked")
}

// take reads the command line and its files.
func (v *verifyCommand) take(fs *pflag.FlagSet) error {
	if v.wait < 0 {
		return errors.New("--wait-expiry must not be negative")
	}
	for _, of := range []struct {
		flag, text string
		to         *[]byte
	}{{"--args", v.args, &v.call.Args}, {"--other-args", v.otherArgs, &v.call.OtherArgs}} {
		switch {
		case of.text == "":
		case !isObject([]byte(of.text)):
			return errors.New(notObject(of.flag, []byte(of.text)))
		default:
			*of.to = []byte(of.text)
		}
	}
	if v.call.OtherArgs == nil {
		v.call.OtherArgs = changedArgs(v.call.Args)
	}
	if v.config != "" {
		if err := v.addressesOf(fs); err != nil {
			return err
		}
	}
	if err := v.from.read(); err != nil {
		return err
	}
	return v.admin.read()
}

// addressesOf takes the addresses of the configuration, where no flag gives others.
func (v *verifyCommand) addressesOf(fs *pflag.FlagSet) error {
	data, err := settings.Files{}.Read(v.config)
	if err != nil {
		return err
	}
	cfg, err := config.Parse(v.config, data, protocols.Config()...)
	if err != nil {
		return plainError{err}
	}
	for _, of := range []struct {
		flag, listen string
		to           *string
	}{{"addr", cfg.Listen, &v.from.addr}, {"admin", cfg.Admin, &v.admin.addr}} {
		host, port, err := net.SplitHostPort(of.listen)
		if fs.Changed(of.flag) || err != nil {
			continue
		}
		switch ip := net.ParseIP(host); {
		case strings.Contains(host, "/"):
			return fmt.Errorf("%s: %s is a network: give --%s", v.config, of.listen, of.flag)
		case port == "0":
			return fmt.Errorf("%s: the port of %s is not fixed: give --%s", v.config, of.listen, of.flag)
		case host == "" || ip != nil && ip.IsUnspecified():
			host = "127.0.0.1"
		}
		*of.to = net.JoinHostPort(host, port)
	}
	v.from.tls.on = v.from.tls.on || cfg.TLS.CertFile != "" && !fs.Changed("addr")
	return nil
}

// changedArgs returns arguments with one value changed: the first text or number, by name, or nil if there is none.
func changedArgs(args []byte) []byte {
	var all map[string]any
	if json.Unmarshal(args, &all) != nil {
		return nil
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch value := all[name].(type) {
		case string:
			all[name] = value + " 2"
		case float64:
			all[name] = value + 1
		default:
			continue
		}
		if text, err := json.Marshal(all); err == nil {
			return text
		}
	}
	return nil
}

func (v *verifyCommand) run(ctx context.Context) error {
	operators, err := v.admin.dial("")
	if err != nil {
		return err
	}
	defer func() { _ = operators.Close() }()
	if v.call.Capability == "" || v.call.Tool == "" {
		return v.needsTool(ctx, operators)
	}
	if err := v.mustAsk(ctx, operators); err != nil {
		return err
	}
	callers := []docpb.CapabilityClient{}
	for _, addr := range slices.Compact([]string{"", v.replica}) { // "": of --addr
		conn, err := v.from.dial(addr)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		callers = append(callers, docpb.NewCapabilityClient(conn))
	}
	found, err := verify.Run(ctx, verify.Config{Callers: callers, Approvals: capgatepb.NewApprovalsClient(operators),
		Call: v.call, WaitExpiry: v.wait, Waiting: func(d time.Duration) {
			fmt.Fprintf(v.err, "waiting %v for approvals to expire…\n", d.Round(time.Second))
		}})
	if err != nil {
		if len(found.Left) > 0 {
			fmt.Fprintln(v.err, madeOf(found))
		}
		return v.from.explained(ctx, err)
	}
	return v.print(found)
}

// mostNamed is the maximum number of tools that an error names.
const mostNamed = 10

// needsTool is the error without --capability or --tool. It names tools that policy asks about, if the operator may
// list them. None is chosen, because the tool really runs.
func (v *verifyCommand) needsTool(ctx context.Context, conn grpc.ClientConnInterface) error {
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	const want = "--capability and --tool are required: the command calls this tool, so it should only read"
	all, err := capgatepb.NewPlaygroundClient(conn).ListPlaygroundTools(within, &capgatepb.ListPlaygroundToolsRequest{
		Tenant: v.call.Tenant, User: v.call.User, Agent: v.call.Agent, Capability: v.call.Capability, PageSize: 1000})
	if err != nil {
		return usageError("%s; tools cannot be listed: %s", want, describeStatus(err))
	}
	var asked []string
	for _, t := range all.GetTools() {
		if t.GetPolicy() != "ask" || v.call.Tool != "" && t.GetTool() != v.call.Tool {
			continue
		}
		if len(asked) == mostNamed {
			asked = append(asked, "and more")
			break
		}
		asked = append(asked, "--capability "+untrusted.Word(t.GetCapability())+" --tool "+
			untrusted.Word(cmp.Or(t.GetTool(), "NAME")))
	}
	if len(asked) == 0 {
		return usageError("%s. Policy asks about none of the tools; capgate policy set CAPABILITY TOOL ask lets a "+
			"person approve each call", want)
	}
	return usageError("%s. Policy asks about:\n  %s", want, strings.Join(asked, "\n  "))
}

// mustAsk checks that the policy of the call is ask, before it is made.
func (v *verifyCommand) mustAsk(ctx context.Context, conn grpc.ClientConnInterface) error {
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := capgatepb.NewPoliciesClient(conn).ExplainPolicy(within, &capgatepb.ExplainPolicyRequest{
		Tenant: v.call.Tenant, User: v.call.User, Agent: v.call.Agent, Capability: v.call.Capability,
		Tool: v.call.Tool})
	switch {
	case err != nil:
		return v.admin.explained(ctx, err)
	case answer.GetPolicy() != "ask":
		return refused("policy does not ask about %s of %s: it is %s, by %s; nothing was called. capgate policy set "+
			"%[2]s %[1]s ask lets a person approve each call", v.call.Tool, v.call.Capability,
			untrusted.Word(answer.GetPolicy()), untrusted.Word(answer.GetLevel()))
	}
	return nil
}

// madeOf says how many approvals a run made, and which are left.
func madeOf(found verify.Report) string {
	text := count(found.Approvals, "approval") + " made, "
	switch {
	case found.Approvals == 0:
		return "no approval was made"
	case len(found.Left) == 0:
		return text + "all of them ended"
	}
	return text + "of which these stay until they expire: " + strings.Join(found.Left, ", ")
}

// print shows the results. The exit status is that of a refusal if a guarantee is broken, or none was checked.
func (v *verifyCommand) print(found verify.Report) error {
	all := verified{Gateway: v.from.target().Addr, Capability: v.call.Capability, Tool: v.call.Tool,
		Checks: found.Checks, Approvals: found.Approvals, Left: append([]string{}, found.Left...)}
	for _, c := range found.Checks {
		switch c.Result {
		case verify.Pass:
			all.Passed++
		case verify.Fail:
			all.Failed++
		default:
			all.NotChecked++
		}
	}
	if err := v.data(all, func(w io.Writer) {
		t := newTable("RESULT", "GUARANTEE", "WHY").on(v.out, "")
		for _, c := range found.Checks {
			t.row(c.Result, c.Guarantee, c.Why)
		}
		t.print(w)
		fmt.Fprintf(w, "\n%d passed, %d failed, %d not checked\n%s\n", all.Passed, all.Failed, all.NotChecked,
			madeOf(found))
	}); err != nil {
		return err
	}
	if all.Failed > 0 || all.Passed == 0 {
		return quiet(exitRefused)
	}
	return nil
}
