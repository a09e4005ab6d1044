package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// kept is state in Redis that one version writes and another one must read.
type kept struct {
	name string
	// write writes the state with the commands of a program at one replica. The returned function checks that the state
	// is in effect once all replicas have the other version.
	write func(u *upgrade, w writer) (check func(ctx context.Context, admin string) error, err error)
}

// writer is the program that writes state, at one replica.
type writer struct {
	t              *testing.T
	program, admin string
	tag            string // distinguishes the state of this writer
}

// run runs a command of the program.
func (w writer) run(args ...string) string {
	w.t.Helper()
	out, _ := command(w.t, w.program, append(args, "--admin", w.admin)...)
	return strings.TrimSpace(out)
}

var keeps = []kept{
	{"tenant, key and quota", tenantKept},
	{"rule", ruleKept},
	{"pending approval", pendingKept},
	{"approved call", approvedKept},
	{"stored response", responseKept},
	{"session's backend", pinKept},
	{"drain", drainKept},
	{"denied approval and its notice", deniedKept},
	{"registered backend", registeredKept},
	{"version of a tool", toolKept},
	{"history of calls", historyKept},
	{"session of a person", sessionKept},
}

// checking is a check of kept state.
type checking struct {
	name  string
	check func(context.Context, string) error
}

// write writes all state at a replica that runs the given program.
func (u *upgrade) write(t *testing.T, program string, replica int) (all []checking) {
	t.Helper()
	w := writer{t, program, u.host(replica+1) + adminPort, fmt.Sprintf("w%d", u.writers)}
	u.writers++
	for _, k := range keeps {
		verify, err := k.write(u, w)
		if err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		all = append(all, checking{k.name, verify})
	}
	return all
}

// checks checks the state that another version wrote.
func (u *upgrade) checks(t *testing.T, version string, all []checking) {
	t.Helper()
	for _, c := range all {
		ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
		if err := c.check(ctx, u.admin()); err != nil {
			t.Errorf("%s, %s: %v", version, c.name, err)
		}
		cancel()
	}
	if t.Failed() {
		t.FailNow()
	}
}

// invoke calls a tool with a key.
func (u *upgrade) invoke(ctx context.Context, key string, in *docpb.InvokeRequest, more ...string) (string, metadata.MD,
	error) {
	client, closing := u.connectGRPC()
	defer closing()
	var trailer metadata.MD
	resp, err := client.Invoke(as(ctx, key, more...), in, grpc.Trailer(&trailer))
	return string(resp.GetResultJson()), trailer, err
}

// echo returns a call of the tool that repeats its arguments.
func echo(args string) *docpb.InvokeRequest {
	return &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte(args)}
}

// tenantKept: of a quota of a hundred calls a day, forty are made before, so sixty remain. A replica that ends loses
// the few calls that it had leased.
func tenantKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	const limit, before, lost = 100, 40, 10
	w.run("tenants", "create", w.tag, "--capabilities", "*", "--limits", fmt.Sprintf(`{"per_day": %d}`, limit))
	key := w.run("keys", "create", w.tag)
	one := func(ctx context.Context) error {
		_, _, err := u.invoke(ctx, key, echo(`{}`))
		return err
	}
	check.Succeeds(w.t, "a call with the new key", func() error { return one(w.t.Context()) })
	for range before - 1 {
		if err := one(w.t.Context()); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, _ string) error {
		n, err := before, error(nil)
		for ; n <= limit && err == nil; n++ {
			err = one(ctx)
		}
		if n--; status.Code(err) != codes.ResourceExhausted || n < limit-lost || n > limit {
			return fmt.Errorf("%d calls of %d: %w", n, limit, unexpected(err))
		}
		return nil
	}, nil
}

// ruleKept: a tool is blocked for a user.
func ruleKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	user := "user-" + w.tag
	w.run("policy", "set", "caps", gatewaytest.Echo, "block", "--user", user, "--tenant", "default")
	blocked := func(ctx context.Context) error {
		_, _, err := u.invoke(ctx, u.key, echo(`{}`), "x-user-id", user)
		if clienttest.Reason(err) == "TOOL_BLOCKED" {
			return nil
		}
		return fmt.Errorf("a blocked tool: %w", unexpected(err))
	}
	check.Succeeds(w.t, "a call that the new rule blocks", func() error { return blocked(w.t.Context()) })
	return func(ctx context.Context, _ string) error { return blocked(ctx) }, nil
}

// unexpected returns the error of a call that should have failed with a different one.
func unexpected(err error) error {
	if err == nil {
		return errors.New("the call succeeded")
	}
	return err
}

// pendingKept: a call waits for approval. It is approved and repeated after the change of version.
func pendingKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	client, closing := u.connectGRPC()
	defer closing()
	args := `{"pending":"` + w.tag + `"}`
	id, err := u.ask(w.t.Context(), client, args)
	return func(ctx context.Context, admin string) error {
		client, closing := u.connectGRPC()
		defer closing()
		if err := u.approve(ctx, admin, id); err != nil {
			return err
		}
		return u.redeem(ctx, client, args, id)
	}, err
}

// approvedKept: a call is approved before the change of version, and repeated once after it.
func approvedKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	client, closing := u.connectGRPC()
	defer closing()
	args := `{"approved":"` + w.tag + `"}`
	id, err := u.ask(w.t.Context(), client, args)
	if err == nil {
		err = u.approve(w.t.Context(), w.admin, id)
	}
	return func(ctx context.Context, _ string) error {
		client, closing := u.connectGRPC()
		defer closing()
		if err := u.redeem(ctx, client, args, id); err != nil {
			return err
		}
		if err := u.redeem(ctx, client, args, id); clienttest.Reason(err) != "APPROVAL_USED" {
			return fmt.Errorf("an approval that was used: %w", unexpected(err))
		}
		return nil
	}, err
}

// responseKept: a repeated call with an idempotency key gets the stored response and does not run again.
func responseKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	args := `{"stored":"` + w.tag + `"}`
	once := func(ctx context.Context) error {
		result, _, err := u.invoke(ctx, u.key, echo(args), "idempotency-key", "key-"+w.tag)
		return same(result, args, err)
	}
	if err := once(w.t.Context()); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ string) error {
		if err := once(ctx); err != nil {
			return err
		}
		n := 0
		for _, c := range u.capabilities {
			for _, s := range c.Seen() {
				if string(s.Request.GetArgsJson()) == args {
					n++
				}
			}
		}
		if n != 1 {
			return fmt.Errorf("the call ran %d times", n)
		}
		return nil
	}, nil
}

// pinKept: the calls of a session stay at its backend.
func pinKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	at := func(ctx context.Context, i int) (string, error) {
		in := echo(`{}`)
		in.SessionId = fmt.Sprintf("session-%s-%d", w.tag, i)
		_, trailer, err := u.invoke(ctx, u.key, in)
		return strings.Join(trailer.Get("served-by"), ","), err
	}
	const sessions = 8
	var before [sessions]string
	for i := range sessions {
		var err error
		if before[i], err = at(w.t.Context(), i); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(before[:], "one") || !slices.Contains(before[:], "two") {
		w.t.Logf("all sessions are at %s", before[0])
	}
	return func(ctx context.Context, _ string) error {
		for i := range sessions {
			if now, err := at(ctx, i); err != nil || now != before[i] {
				return fmt.Errorf("session %d was at %s, now at %s: %w", i, before[i], now, err)
			}
		}
		return nil
	}, nil
}

// drainKept: a backend that an operator drains stays drained until the operator ends it.
func drainKept(u *upgrade, w writer) (func(context.Context, string) error, error) {
	w.run("drain", u.spare)
	return func(ctx context.Context, admin string) error {
		other := w
		other.admin = admin
		if state := other.run("status", "spare", "-o", "json"); !strings.Contains(state, `"drain`) {
			return fmt.Errorf("the backend is not drained: %s", state)
		}
		other.run("undrain", u.spare)
		return nil
	}, nil
}
