package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/manifest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const registerUsage = `Usage: capgate register --capability NAME --addr HOST:PORT [flags]

Registers a backend at a gateway's admin API and renews the registration at a third of --ttl,
until SIGTERM or Ctrl-C; then withdraws it. It retries while the gateway is unavailable. A
registration that is not renewed expires after --ttl. The gateway resolves HOST at each renewal.

Exit status: 0 on success; 1 if the gateway rejected the registration or another process took it
over; 2 for a wrong command line; 3 if the withdrawal failed.

Flags:
`

func runRegister(ctx context.Context, args []string, std stdio) int {
	req := new(capgatepb.RegisterBackendRequest)
	fs := flag.NewFlagSet("register", flag.ContinueOnError)
	admin := addAdmin(fs)
	fs.StringVar(&req.Capability, "capability", "", "`name` of the capability that the backend serves")
	fs.StringVar(&req.Addr, "addr", "", "`host:port` of the backend, reachable from the gateway")
	fs.StringVar(&req.Session, "session", "",
		"`id` of the only session that the backend serves; its calls go nowhere else")
	fs.StringVar(&req.Tenant, "tenant", "", "`id` of the tenant of --session, in a gateway with tenants")
	fs.StringVar(&req.Zone, "zone", "", "`name` of the backend's zone")
	fs.StringVar(&req.Dialect, "dialect", "auto",
		"`dialect` of the backend: auto (the fleet's setting), doc, live or legacy")
	ttl := fs.Duration("ttl", 30*time.Second, "`duration` after which the registration expires without a renewal")
	weight := fs.Int("weight", 100, "`weight` of the backend relative to others, 0 to 10000; 0: no new calls")
	file := fs.String("manifest", "",
		"`file` of the capability's manifest.yaml, for a gateway with registration.manifests")
	limit := fs.Int("max-concurrent", 0,
		"maximum concurrent `calls` of all gateways together; 0: the fleet's setting")
	if status, ok := parseOnlyFlags(fs, args, registerUsage, std); !ok {
		return status
	}
	req.Ttl, req.Weight, req.MaxConcurrent = durationpb.New(*ttl), proto.Int32(int32(*weight)),
		int32(*limit) //nolint:gosec // checked below
	conn, err := dialAdmin(*admin, "capgate-register")
	switch {
	case req.GetCapability() == "" || req.GetAddr() == "":
		err = errors.New("--capability and --addr are required")
	case req.GetTenant() != "" && req.GetSession() == "":
		err = errors.New("--tenant requires --session")
	case *ttl < time.Second:
		err = errors.New("--ttl must be at least 1s")
	case int(req.GetWeight()) != *weight || int(req.GetMaxConcurrent()) != *limit:
		err = errors.New("--weight or --max-concurrent is too large")
	}
	if conn != nil {
		defer func() { _ = conn.Close() }()
	}
	if err == nil && *file != "" {
		if req.Manifest, err = manifestFor(req.GetCapability(), *file); err != nil {
			fmt.Fprintf(std.err, "capgate register: %v\n", err)
			return exitRefused
		}
	}
	if err != nil {
		return wrongLine(fs, err, std)
	}
	r := &registrar{client: capgatepb.NewRegistryClient(conn), req: req, ttl: *ttl,
		log: newLogger("text", slog.LevelInfo, std.err)}
	if err := r.run(ctx); err != nil {
		fmt.Fprintf(std.err, "capgate register: %s\n", explainAdmin(ctx, *admin, err))
		return exitRefused
	}
	if err := r.withdraw(); err != nil {
		fmt.Fprintf(std.err, "capgate register: not withdrawn; the registration expires within %v: %s\n", *ttl,
			describeStatus(err))
		return exitTransport
	}
	return 0
}

// manifestFor is the text of a file that is a capability's manifest.
func manifestFor(capability, file string) (string, error) {
	files := fingerprints{}
	data, err := files.read(file)
	if err != nil {
		return "", err
	}
	m, err := manifest.Parse(file, data)
	if err == nil && m.ID != capability {
		err = fmt.Errorf("%s: id: is %s, want %s", file, m.ID, capability)
	}
	return string(data), err
}

// exitRefused is the exit status when a gateway refuses for good.
const exitRefused = 1

// dialAdmin is a client of a gateway's admin API, which may be away for long
// and has to be found again soon then.
func dialAdmin(admin, agent string) (*grpc.ClientConn, error) {
	u, err := adminURL(admin)
	if err != nil {
		return nil, err
	}
	creds, port := insecure.NewCredentials(), "80"
	if u.Scheme == "https" {
		creds, port = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), "443"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return grpc.NewClient("dns:///"+net.JoinHostPort(u.Hostname(), port),
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent(agent),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second,
			PermitWithoutStream: true}))
}
