package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const keysUsage = `Usage: capgate keys create TENANT [flags]
       capgate keys list TENANT [flags]
       capgate keys rotate TENANT ID [flags]
       capgate keys revoke TENANT ID [flags]
       capgate keys new [flags]

API keys of tenants, for all replicas of a gateway, which follow a change within a second.
create and rotate print a key on standard output, or write it to the file --out, and nobody
tells it again. rotate makes one with another id, and lets the old one hold for --grace.
TENANT may be - for list, rotate and revoke: the keys of all tenants, and the key ID whosever it is.

new asks no gateway: it makes a key for the configuration, printed or written to --out, and
prints on standard error what that needs to know of it: its id, a hash of its secret, and
what the flags say of it.

Exit status: 0, or 1 if the gateway refused, 2 for a wrong command line, 3 if it could not
be reached.

Flags:
`

// keysCommand is capgate keys, as the command line describes it.
type keysCommand struct {
	tenant, id               string
	key                      capgatepb.Key
	scopes, asserts          string
	expires, out             string
	pepper                   string
	grace                    time.Duration
	client                   capgatepb.TenantsClient
	standardOut, standardErr io.Writer
}

func runKeys(ctx context.Context, args []string, std stdio) int {
	c := keysCommand{standardOut: std.out, standardErr: std.err}
	fs := flag.NewFlagSet("keys", flag.ContinueOnError)
	fs.StringVar(&c.key.Name, "name", "", "create and new: `name` for people")
	fs.StringVar(&c.scopes, "scopes", "",
		"create and new: what it is good for, of "+tenant.AllScopes+", with commas between them; default invoke,read")
	fs.StringVar(&c.asserts, "asserts", "",
		"create and new: what its holder may say of itself, user and agent; default nothing")
	fs.StringVar(&c.expires, "expires", "",
		"create and new: from `when` on it is refused, as in 2027-01-31T00:00:00Z; default never")
	fs.DurationVar(&c.grace, "grace", 24*time.Hour, "rotate: how long the old one holds yet, 0s to 720h")
	fs.StringVar(&c.out, "out", "", "create, rotate and new: `file` that is made for the key, for its owner "+
		"alone to read; default standard output")
	fs.StringVar(&c.pepper, "pepper-file", "", "new: the configuration's pepper_file, if it has one")
	about := []string{"name", "scopes", "asserts", "expires"}
	all := verbs{
		flags: fs, usage: keysUsage,
		all: []verb{
			{name: "create", words: 1, run: soon(c.create), takes: append(about, "out")},
			{name: "list", words: 1, run: soon(c.list)},
			{name: "rotate", words: 2, run: soon(c.rotate), takes: []string{"grace", "out"}},
			{name: "revoke", words: 2, run: soon(c.revoke)},
			{name: "new", run: c.newKey, takes: append(about, "out", "pepper-file"), local: true},
		},
		take: c.take, dial: func(conn grpc.ClientConnInterface) { c.client = capgatepb.NewTenantsClient(conn) },
	}
	return all.run(ctx, args, std)
}

func (c *keysCommand) take(verb string, words []string) error {
	for i, to := range []*string{&c.tenant, &c.id} {
		if i < len(words) {
			*to = words[i]
		}
	}
	if id, _, ok := tenant.ParseCredential(c.id); ok {
		return fmt.Errorf("want the key's id, %s, and not the key itself", id)
	}
	c.key.Scopes, c.key.Asserts = commas(c.scopes), commas(c.asserts)
	if verb == "new" { // of another key a gateway says it
		if err := c.checkNew(); err != nil {
			return err
		}
	}
	if c.expires != "" {
		at, err := time.Parse(time.RFC3339, c.expires)
		if err != nil {
			return errors.New("--expires: want a time with its zone, as in 2027-01-31T00:00:00Z")
		}
		c.key.ExpireTime = timestamppb.New(at)
	}
	return nil
}

func (c *keysCommand) create(ctx context.Context) error {
	return c.keep(func() (*capgatepb.Key, string, error) {
		r, err := c.client.CreateKey(ctx, &capgatepb.CreateKeyRequest{TenantId: c.tenant, Key: &c.key})
		return r.GetKey(), r.GetCredential(), err
	})
}

func (c *keysCommand) rotate(ctx context.Context) error {
	return c.keep(func() (*capgatepb.Key, string, error) {
		r, err := c.client.RotateKey(ctx,
			&capgatepb.RotateKeyRequest{TenantId: c.tenant, KeyId: c.id, Grace: durationpb.New(c.grace)})
		return r.GetKey(), r.GetCredential(), err
	})
}

// keep writes down a key that is made once there is a place for it: it is told once.
func (c *keysCommand) keep(make func() (*capgatepb.Key, string, error)) error {
	var k *capgatepb.Key
	err := c.write(func() (id, credential string, err error) {
		k, credential, err = make()
		return k.GetId(), credential, err
	})
	if err == nil {
		fmt.Fprintf(c.standardErr, "key %s of %s: %s\n", k.GetId(), k.GetTenant(), strings.Join(k.GetScopes(), ", "))
	}
	return err
}

// write makes a key, and puts it where the line says.
func (c *keysCommand) write(make func() (id, credential string, err error)) error {
	to := c.standardOut
	if c.out != "" {
		f, err := os.OpenFile(c.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		defer f.Close()
		to = f
	}
	id, credential, err := make()
	if err != nil {
		if c.out != "" {
			_ = os.Remove(c.out)
		}
		return err
	}
	if _, err := fmt.Fprintln(to, credential); err != nil {
		return fmt.Errorf("the key %s is made, but could not be written, so revoke it: %w", id, err)
	}
	return nil
}

func (c *keysCommand) revoke(ctx context.Context) error {
	r, err := c.client.RevokeKey(ctx, &capgatepb.RevokeKeyRequest{TenantId: c.tenant, KeyId: c.id})
	if err == nil {
		fmt.Fprintf(c.standardOut, "revoked: %s of %s\n", r.GetKey().GetId(), r.GetKey().GetTenant())
	}
	return err
}

func (c *keysCommand) list(ctx context.Context) error {
	table := tabwriter.NewWriter(c.standardOut, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tSTATE\tSCOPES\tASSERTS\tENDS\tREPLACED BY\tKEPT IN\tMADE\tBY")
	for token := ""; ; {
		page, err := c.client.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: c.tenant, PageSize: 1000, PageToken: token})
		if err != nil {
			return err
		}
		for _, k := range page.GetKeys() {
			fmt.Fprintln(table, strings.Join([]string{
				k.GetId(), word(k.GetName()), k.GetState(), orDash(strings.Join(k.GetScopes(), ",")),
				orDash(strings.Join(k.GetAsserts(), ",")), when(endOf(k)),
				orDash(k.GetReplacedBy()), k.GetSource(), when(k.GetCreateTime()), word(k.GetCreatedBy()),
			}, "\t"))
		}
		if token = page.GetNextPageToken(); token == "" {
			return table.Flush()
		}
	}
}

// endOf is when a key ends, or did; nil: it does not.
func endOf(k *capgatepb.Key) (end *timestamppb.Timestamp) {
	for _, t := range []*timestamppb.Timestamp{k.GetRevokeTime(), k.GetEndTime(), k.GetExpireTime()} {
		if t != nil && (end == nil || t.AsTime().Before(end.AsTime())) {
			end = t
		}
	}
	return end
}
