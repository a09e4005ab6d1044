package cli

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/telemetry"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const registerHelp = `The command registers the backend at a gateway's admin API and renews the registration at a third
of --ttl, until SIGTERM or Ctrl-C; then it withdraws it. It retries while the gateway is unavailable. A
registration that is not renewed expires after --ttl. The gateway resolves HOST at each renewal.`

// registerCommand is capgate register, as the command line describes it.
type registerCommand struct {
	output
	req           *capgatepb.RegisterBackendRequest
	ttl           time.Duration
	weight, limit int
	manifest      string
}

// newRegisterCommand returns the command capgate register.
func newRegisterCommand(std stdio) *cobra.Command {
	r := &registerCommand{output: output{stdio: std}, req: new(capgatepb.RegisterBackendRequest)}
	c := overAdmin("register CAPABILITY HOST:PORT", "register a backend at a gateway, and keep it registered", 0, r.run,
		r.registrationFlags, r.addFlags)
	c.Long = registerHelp
	return exits(c, "0 success; 1 the gateway rejected the registration, or another process took it over;\n"+
		"2 wrong command line; 3 the withdrawal failed.")
}

func (r *registerCommand) run(c *cobra.Command, conn grpc.ClientConnInterface, args []string) error {
	if err := r.take(args[0], args[1]); err != nil {
		return err
	}
	lease := &registrar{client: capgatepb.NewRegistryClient(conn), req: r.req, ttl: r.ttl, tell: r.teller()}
	if err := lease.run(c.Context()); err != nil {
		return err
	}
	if err := lease.withdraw(); err != nil {
		return exitError{exitUnreachable, fmt.Errorf("not withdrawn; the registration expires within %v: %s", r.ttl,
			describeStatus(err))}
	}
	return nil
}

func (r *registerCommand) registrationFlags(fs *pflag.FlagSet) {
	fs.StringVar(&r.req.Session, "session", "",
		"`id` of the only session that the backend serves; its calls go nowhere else")
	fs.StringVar(&r.req.Tenant, "tenant", "", "`id` of the tenant of --session, in a gateway with tenants")
	fs.StringVar(&r.req.Zone, "zone", "", "`name` of the backend's zone")
	fs.StringVar(&r.req.Dialect, "dialect", "auto",
		"`dialect` of the backend: auto (the fleet's setting), doc, live or legacy")
	fs.DurationVar(&r.ttl, "ttl", 30*time.Second,
		"`duration` after which the registration expires without a renewal")
	fs.IntVar(&r.weight, "weight", 100, "`weight` of the backend relative to others, 0 to 10000; 0: no new calls")
	fs.StringVar(&r.manifest, "manifest", "",
		"`file` of the capability's manifest.yaml, for a gateway with registration.manifests")
	fs.IntVar(&r.limit, "max-concurrent", 0,
		"maximum concurrent `calls` of all gateways together; 0: the fleet's setting")
}

// registrationState is a change of a registration as data.
type registrationState struct {
	State      string   `json:"state"` // registered, retrying or withdrawn
	Capability string   `json:"capability"`
	Addr       string   `json:"addr"`
	Addrs      []string `json:"addrs,omitempty"` // that calls go to
	TTL        string   `json:"ttl,omitempty"`
	Error      string   `json:"error,omitempty"` // that is retried
}

// teller returns what reports the changes of the registration: people get log lines, and programs one object each.
func (r *registerCommand) teller() func(registrationState) {
	log := telemetry.NewLogger("text", slog.LevelInfo, r.err)
	return func(s registrationState) {
		s.Capability, s.Addr = r.req.GetCapability(), r.req.GetAddr()
		of := log.With("capability", s.Capability, "addr", s.Addr)
		switch {
		case r.format != tableFormat:
			if err := r.record(s, nil); err != nil {
				of.Warn("not printed", "error", err)
			}
		case s.State == retrying:
			of.Warn("not registered; retrying", "error", s.Error)
		case s.State == registered:
			of.Info("registered", "addresses", s.Addrs, "ttl", s.TTL)
		default:
			of.Info(s.State)
		}
	}
}

// take reads the command line, and the manifest that it names.
func (r *registerCommand) take(capability, addr string) (err error) {
	req := r.req
	req.Capability, req.Addr = capability, addr
	req.Ttl, req.Weight, req.MaxConcurrent = durationpb.New(r.ttl), proto.Int32(int32(r.weight)),
		int32(r.limit) //nolint:gosec // checked below
	switch {
	case req.GetTenant() != "" && req.GetSession() == "":
		return usageError("--tenant requires --session")
	case r.ttl < time.Second:
		return usageError("--ttl must be at least 1s")
	case int(req.GetWeight()) != r.weight || int(req.GetMaxConcurrent()) != r.limit:
		return usageError("--weight or --max-concurrent is too large")
	}
	if r.manifest != "" {
		req.Manifest, err = manifestFor(capability, r.manifest)
	}
	return err
}

// manifestFor returns the text of a file that is a capability's manifest.
func manifestFor(capability, file string) (string, error) {
	files := settings.Files{}
	data, err := files.Read(file)
	if err != nil {
		return "", err
	}
	m, err := manifest.Parse(file, data)
	if err == nil && m.ID != capability {
		err = fmt.Errorf("%s: id: is %s, want %s", file, m.ID, capability)
	}
	return string(data), err
}
