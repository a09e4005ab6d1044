package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
)

const (
	requestTimeout = 10 * time.Second // timeout of one request
	connectTimeout = 5 * time.Second  // timeout of a connection to one address
	maxResponse    = 64 << 20         // bytes of the admin API
)

// calls runs a command with a connection to a port.
type calls func(c *cobra.Command, conn grpc.ClientConnInterface, args []string) error

// overAdmin returns a command that calls the admin API over gRPC, for at most so long; 0: no limit. Every function of
// flags adds some. overPublic returns one that calls the port for callers.
func overAdmin(use, about string, most time.Duration, run calls, flags ...func(*pflag.FlagSet)) *cobra.Command {
	return over(addAdmin, use, about, most, run, flags)
}

func overPublic(use, about string, most time.Duration, run calls, flags ...func(*pflag.FlagSet)) *cobra.Command {
	return over(addPublic, use, about, most, run, flags)
}

// addSubjectFlags adds the flags that filter calls by their caller and their tool.
func addSubjectFlags(fs *pflag.FlagSet, user, agent, capability, tool *string) {
	fs.StringVar(user, "user", "", "only calls of the user with this `name`")
	fs.StringVar(agent, "agent", "", "only calls of the agent with this `name`")
	fs.StringVar(capability, "capability", "", "only calls of the capability with this `id`")
	fs.StringVar(tool, "tool", "", "only calls of the tool with this `name`")
}

func over(addPort func(*cobra.Command) *gatewayPort, use, about string, most time.Duration, run calls,
	flags []func(*pflag.FlagSet)) *cobra.Command {
	c := &cobra.Command{Use: use, Short: about}
	to := addPort(c)
	for _, add := range flags {
		add(c.Flags())
	}
	completeOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		conn, err := to.dial("")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		whole := c.Context()
		if most > 0 {
			ctx, cancel := context.WithTimeout(whole, most)
			defer cancel()
			c.SetContext(ctx)
		}
		return to.explained(whole, run(c, conn, args))
	}
	return c
}

// do sends a request over HTTP and decodes the response. A gateway's refusal becomes an error with its message.
func (p *gatewayPort) do(ctx context.Context, method, path string, body, answer any) error {
	if err := p.read(); err != nil {
		return err
	}
	var text io.Reader = http.NoBody
	if body != nil {
		data, err := asJSON(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(data)
	}
	resp, err := p.send(ctx, method, path, text)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	decoder := json.NewDecoder(io.LimitReader(resp.Body, maxResponse))
	if resp.StatusCode == http.StatusOK {
		var text json.RawMessage
		if decoder.Decode(&text) != nil || decode(text, answer) != nil {
			return refused("%s answers, but not as the admin API of a capgate gateway; %s", p.base.Host, p.setting())
		}
		return nil
	}
	exit := exitRefused
	if resp.StatusCode >= http.StatusBadGateway {
		exit = exitUnreachable
	}
	var problem problem.Problem
	switch err := decoder.Decode(&problem); {
	case err != nil || problem.Detail == "":
		return exitError{exit, fmt.Errorf("%s: %s is not the admin API of a capgate gateway; %s", resp.Status,
			p.base.Host, p.setting())}
	case problem.Reason == "NO_SUCH_PATH" && p.isOther(ctx):
		return p.otherPort()
	}
	return exitError{exit, fmt.Errorf("%s (%s)", p.explainRefusal(problem.Reason, problem.Detail), problem.Reason)}
}

// send sends a request with the credential, after read.
func (p *gatewayPort) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.base.String(), "/")+path, body)
	if err != nil {
		return nil, err
	}
	if header := p.header(); header != "" {
		req.Header.Set("Authorization", header)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, exitError{exitUnreachable, errors.New(unreachable(ctx, p.name(), p.target(), err) + "; " +
			p.setting())}
	}
	return resp, nil
}

// decode decodes a message, or a value of encoding/json.
func decode(text []byte, to any) error {
	if m, ok := to.(proto.Message); ok {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
	}
	return json.Unmarshal(text, to)
}

// isOther reports whether the address is that of a gateway's other port. Only the admin API has readiness.
func (p *gatewayPort) isOther(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.base.String(), "/")+"/readyz",
		http.NoBody)
	if err != nil {
		return false
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var answer struct {
		Ready  *bool  `json:"ready"`
		Reason string `json:"reason"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxResponse)).Decode(&answer) != nil {
		return false
	}
	if !p.operators && answer.Reason == "OPERATOR_UNKNOWN" {
		return true
	}
	public := answer.Reason == "NO_SUCH_PATH" || resp.StatusCode == http.StatusUnauthorized && answer.Reason != ""
	return p.operators && answer.Ready == nil && public || !p.operators && answer.Ready != nil
}

// otherPort returns the error for a command that called the other port of a gateway.
func (p *gatewayPort) otherPort() error {
	if p.operators {
		return refused("%s is the public port of a gateway; this command needs its admin API, the address admin in "+
			"its configuration (--admin or CAPGATE_ADMIN)", p.base.Host)
	}
	return refused("%s is the admin API of a gateway; calls go to its public port, the address listen in its "+
		"configuration (--addr)", p.target().Addr)
}

// notGateway returns the error for a response that is not gRPC's. A gateway's other port may have sent it, another
// server, or a proxy, whose gateway may be back soon.
func (p *gatewayPort) notGateway(ctx context.Context, answer string, later bool) error {
	if p.isOther(ctx) {
		return p.otherPort()
	}
	exit, what := exitRefused, "a capgate gateway does"
	if later {
		exit = exitUnreachable
	}
	if p.operators {
		what = "the admin API of a capgate gateway does"
	}
	return exitError{exit, fmt.Errorf("%s answered with HTTP %s, and not as %s; %s", p.target().Addr, answer, what,
		p.setting())}
}

// explained turns the error of a call into one that says what to do. Other errors stay.
func (p *gatewayPort) explained(ctx context.Context, err error) error {
	var printed exitError
	if err == nil || errors.As(err, &printed) && printed.error == nil {
		return err
	}
	if _, isStatus := grpcstatus.FromError(err); !isStatus {
		return err
	}
	if answer := answerOverHTTP(err); answer != "" {
		return p.notGateway(ctx, answer, away(err))
	}
	reason := status.InfoOf(err).GetReason()
	switch code := grpcstatus.Code(err); {
	case p.operators && (code == codes.Unauthenticated || code == codes.PermissionDenied) ||
		code == codes.Unimplemented && (p.operators || reason == ""):
		if p.isOther(ctx) {
			return p.otherPort()
		}
	case !p.operators && reason == "CREDENTIAL_MISSING":
		return refused("%s needs an API key or a token: give it with --key-file, or in CAPGATE_KEY "+
			"(CREDENTIAL_MISSING)", p.target().Addr)
	}
	switch {
	case p.operators && reason != "" && !away(err):
		return refused("%s (%s)", p.explainRefusal(reason, grpcstatus.Convert(err).Message()), reason)
	case !away(err):
		return exitError{exitRefused, errors.New(describeStatus(err))}
	case reason != "":
		return exitError{exitUnreachable, errors.New(describeStatus(err))}
	}
	return exitError{exitUnreachable, errors.New(unreachable(ctx, p.name(), p.target(), err) + "; " + p.setting())}
}

// explainRefusal adds to the admin API's refusal of an operator what to do about it. Other texts stay.
func (p *gatewayPort) explainRefusal(reason, text string) string {
	_, source, _ := p.credential()
	signIn := "sign in with capgate login" + p.loginFlag() + ", or give an operator's key with --" + p.prefix +
		"key-file"
	if p.prefix == "" {
		signIn += " or CAPGATE_KEY"
	}
	switch reason {
	case "OPERATOR_UNKNOWN", "CREDENTIAL_MISSING", "CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED":
		if source == "" {
			return p.base.Host + " needs an operator's credential: " + signIn
		}
		if source == storedSource {
			signIn += "; capgate logout deletes the stored one"
		}
		return source + " is not accepted by " + p.base.Host + ", or not any more: " + signIn
	case "LAST_BACKEND":
		return text + " (--force)"
	case "ROLE_MISSING", "OPERATOR_TENANT":
		if source == "" {
			source = "the client certificate"
		}
		return text + "; used was " + source + ". To use another identity, " + signIn
	}
	return text
}

// loginFlag returns the flag with which capgate login reaches the same admin API.
func (p *gatewayPort) loginFlag() string {
	if p.addr == defaultAdmin() {
		return ""
	}
	return " --admin " + p.addr
}
