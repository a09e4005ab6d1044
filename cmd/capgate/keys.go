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

Manages API keys of tenants, at all replicas of a gateway within a second. create and rotate
print the key on standard output, or write it to the file --out; it cannot be shown again. rotate
creates a successor with another id, and keeps the old key valid for --grace. For list, rotate
and revoke, TENANT may be "-": list shows the keys of all tenants, and the others find the tenant
of the key ID.

new needs no gateway: it makes a key for the configuration file. It prints the key, or writes it
to --out, and prints the entry for the configuration on standard error: the key's id, a hash of
its secret, and the settings of the flags.

Exit status: 0 on success; 1 if the gateway rejected the request; 2 for a wrong command line;
3 if the gateway could not be reached.

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
	fs.StringVar(&c.key.Name, "name", "", "create and new: `name` of the key, for people")
	fs.StringVar(&c.scopes, "scopes", "",
		"create and new: comma-separated `scopes`, of "+tenant.AllScopes+"; default invoke,read")
	fs.StringVar(&c.asserts, "asserts", "",
		"create and new: comma-separated `identities` that its holder may assert, of user, agent; default none")
	fs.StringVar(&c.expires, "expires", "",
		"create and new: `time` at which the key expires, as in 2027-01-31T00:00:00Z; default never")
	fs.DurationVar(&c.grace, "grace", 24*time.Hour, "rotate: `duration` for which the old key stays valid, 0s to 720h")
	fs.StringVar(&c.out, "out", "", "create, rotate and new: new `file` for the key, readable only by its "+
		"owner; default standard output")
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
		return fmt.Errorf("want the key's id, %s, not the key itself", id)
	}
	c.key.Scopes, c.key.Asserts = commas(c.scopes), commas(c.asserts)
	if verb == "new" { // the gateway rejects an unknown key
		if err := c.checkNew(); err != nil {
			return err
		}
	}
	if c.expires != "" {
		at, err := time.Parse(time.RFC3339, c.expires)
		if err != nil {
			return errors.New("--expires: want a time with a zone, as in 2027-01-31T00:00:00Z")
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

// keep opens the output before it creates the key, because the key is shown only once.
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
		return fmt.Errorf("key %s was created but could not be written; revoke it: %w", id, err)
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
		page, err := c.client.ListKeys(ctx,
			&capgatepb.ListKeysRequest{TenantId: c.tenant, PageSize: 1000, PageToken: token})
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

// endOf returns when a key ends or ended; nil: never.
func endOf(k *capgatepb.Key) (end *timestamppb.Timestamp) {
	for _, t := range []*timestamppb.Timestamp{k.GetRevokeTime(), k.GetEndTime(), k.GetExpireTime()} {
		if t != nil && (end == nil || t.AsTime().Before(end.AsTime())) {
			end = t
		}
	}
	return end
}
