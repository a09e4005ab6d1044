package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const keysHelp = `Changes apply at all replicas of a gateway within a second. create and rotate print the key on
standard output, or write it to the file --out; it cannot be shown again. For list, rotate and revoke, TENANT
may be "-": list shows the keys of all tenants, and the others find the tenant of the key ID.`

const rotateHelp = `The successor has another id. The old key stays valid for --grace.`

const newKeyHelp = `It needs no gateway. It prints the key, or writes it to --out, and prints the entry for the
configuration on standard error: the key's id, a hash of its secret, and the settings of the flags.
With --roles the key is an operator's, for the admin API; without, it is a tenant's.`

// keysCommand is capgate keys, as the command line describes it.
type keysCommand struct {
	output
	key             capgatepb.Key
	scopes, asserts string
	expires, file   string
	pepper          string
	roles           string // of an operator's key
	grace           time.Duration
}

// newKeysCommand returns the command capgate keys.
func newKeysCommand(std stdio) *cobra.Command {
	c := &keysCommand{output: output{stdio: std}}
	rotate := overAdmin("rotate TENANT ID", "create the successor of a key", requestTimeout, c.rotate, c.graceFlag,
		c.fileFlag, c.addFlags)
	rotate.Long = rotateHelp
	local := &cobra.Command{Use: "new", Short: "make a key for the configuration file", Long: newKeyHelp,
		RunE: func(*cobra.Command, []string) error { return c.newKey() }}
	c.keyFlags(local.Flags())
	c.fileFlag(local.Flags())
	c.addFlags(local.Flags())
	completeOutput(local)
	local.Flags().StringVar(&c.pepper, "pepper-file", "", "the configuration's pepper_file, if it has one")
	local.Flags().StringVar(&c.roles, "roles", "",
		"comma-separated `roles` of an operator's key, of "+operator.AllRoles+"; default: a tenant's key")
	return parent("keys", "create, list, rotate and revoke API keys of tenants, and make keys of operators", keysHelp,
		overAdmin("create TENANT", "create a key", requestTimeout, c.create, c.keyFlags, c.fileFlag, c.addFlags),
		overAdmin("list TENANT", "list keys", requestTimeout, c.list, c.addFlags), rotate,
		overAdmin("revoke TENANT ID", "revoke a key, for good", requestTimeout, c.revoke, c.addFlags), local)
}

func (c *keysCommand) keyFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.key.Name, "name", "", "`name` of the key, for people")
	fs.StringVar(&c.scopes, "scopes", "", "comma-separated `scopes`, of "+tenant.AllScopes+"; default invoke,read")
	fs.StringVar(&c.asserts, "asserts", "",
		"comma-separated `identities` that its holder may assert, of user, agent; default none")
	fs.StringVar(&c.expires, "expires", "",
		"`time` at which the key expires, as in 2027-01-31T00:00:00Z; default never")
}

func (c *keysCommand) graceFlag(fs *pflag.FlagSet) {
	fs.DurationVar(&c.grace, "grace", 24*time.Hour, "`duration` for which the old key stays valid, 0s to 720h")
}

func (c *keysCommand) fileFlag(fs *pflag.FlagSet) {
	fs.StringVar(&c.file, "out", "", "new `file` for the key, readable only by its owner; default standard output")
}

// take reads the key that flags describe.
func (c *keysCommand) take() error {
	c.key.Scopes, c.key.Asserts = commas(c.scopes), commas(c.asserts)
	if c.expires != "" {
		at, err := time.Parse(time.RFC3339, c.expires)
		if err != nil {
			return usageError("--expires: want a time with a zone, as in 2027-01-31T00:00:00Z")
		}
		c.key.ExpireTime = timestamppb.New(at)
	}
	return nil
}

// checkID rejects a key in place of its id.
func checkID(id string) error {
	if id, _, isKey := tenant.ParseCredential(id); isKey {
		return usageError("want the key's id, %s, not the key itself", id)
	}
	return nil
}

func (c *keysCommand) create(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	if err := c.take(); err != nil {
		return err
	}
	return c.keep(func() (*capgatepb.Key, string, error) {
		r, err := capgatepb.NewTenantsClient(conn).CreateKey(cmd.Context(),
			&capgatepb.CreateKeyRequest{TenantId: args[0], Key: &c.key})
		return r.GetKey(), r.GetCredential(), err
	})
}

func (c *keysCommand) rotate(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	if err := checkID(args[1]); err != nil {
		return err
	}
	return c.keep(func() (*capgatepb.Key, string, error) {
		r, err := capgatepb.NewTenantsClient(conn).RotateKey(cmd.Context(),
			&capgatepb.RotateKeyRequest{TenantId: args[0], KeyId: args[1], Grace: durationpb.New(c.grace)})
		return r.GetKey(), r.GetCredential(), err
	})
}

// keep opens the output before it creates the key, because the key is shown only once. Programs get the key with its
// settings as one object; where a file has the key, the object is without it.
func (c *keysCommand) keep(make func() (*capgatepb.Key, string, error)) error {
	var k *capgatepb.Key
	err := c.write(func() (id, text string, err error) {
		if k, text, err = make(); err != nil || c.format == tableFormat || c.file != "" {
			return k.GetId(), text, err
		}
		var b bytes.Buffer
		err = c.encode(&b, &capgatepb.CreateKeyResponse{Key: k, Credential: text}, "  ")
		return k.GetId(), strings.TrimSuffix(b.String(), "\n"), err
	})
	switch {
	case err != nil:
		return err
	case c.format == tableFormat:
		fmt.Fprintf(c.err, "key %s of %s: %s\n", k.GetId(), k.GetTenant(), strings.Join(k.GetScopes(), ", "))
	case c.file != "":
		return c.data(k, nil)
	}
	return nil
}

// write makes a key, and puts it where the line says.
func (c *keysCommand) write(make func() (id, credential string, err error)) error {
	to := c.out
	if c.file != "" {
		f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return usageError("--out: %s cannot be created: %w", c.file, reasonOf(err))
		}
		defer f.Close()
		to = f
	}
	id, credential, err := make()
	if err != nil {
		if c.file != "" {
			_ = os.Remove(c.file)
		}
		return err
	}
	if _, err := fmt.Fprintln(to, credential); err != nil {
		return fmt.Errorf("key %s was created but could not be written; revoke it: %w", id, err)
	}
	return nil
}

func (c *keysCommand) revoke(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	if err := checkID(args[1]); err != nil {
		return err
	}
	r, err := capgatepb.NewTenantsClient(conn).RevokeKey(cmd.Context(),
		&capgatepb.RevokeKeyRequest{TenantId: args[0], KeyId: args[1]})
	return c.result(r.GetKey(), err, func(w io.Writer) {
		fmt.Fprintf(w, "revoked: %s of %s\n", r.GetKey().GetId(), r.GetKey().GetTenant())
	})
}

func (c *keysCommand) list(cmd *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	all, err := everyPage(cmd, capgatepb.NewTenantsClient(conn).ListKeys,
		&capgatepb.ListKeysRequest{TenantId: args[0], PageSize: 1000})
	return c.result(all, err, func(w io.Writer) {
		t := newTable("ID", "NAME", "STATE", "SCOPES", "ASSERTS", "ENDS", "REPLACED BY", "SOURCE", "AGE", "CREATED BY").
			on(c.out, "no keys", "SOURCE", "CREATED BY", "AGE", "REPLACED BY", "ASSERTS")
		for _, k := range all.GetKeys() {
			t.row(k.GetId(), k.GetName(), k.GetState(), strings.Join(k.GetScopes(), ","),
				strings.Join(k.GetAsserts(), ","), ends(endOf(k)), k.GetReplacedBy(), k.GetSource(),
				ageOf(k.GetCreateTime()), k.GetCreatedBy())
		}
		t.print(w)
	})
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
