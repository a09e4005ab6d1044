package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/container"
)

// caller is the connection of a command to a gateway's public port.
type caller struct {
	addr            string
	useTLS          bool
	caFile, keyFile string

	creds  credentials.TransportCredentials
	secure *tls.Config // nil: cleartext
	key    string      // API key or token; "": none
}

// addCaller adds the flags for the connection.
func addCaller(fs *pflag.FlagSet) *caller {
	c := new(caller)
	fs.StringVar(&c.addr, "addr", "localhost:8080",
		"`host:port` of the gateway's public port, or its URL; https:// implies --tls")
	fs.BoolVar(&c.useTLS, "tls", false, "connect with TLS")
	fs.StringVar(&c.caFile, "tls-ca", "",
		"PEM `file` of the certificate authorities to trust instead of the system's; implies --tls")
	fs.StringVar(&c.keyFile, "key-file", "",
		"`file` with the API key or token, for a gateway with tenants; alternatively set CAPGATE_KEY (a "+
			"command line is visible to other users)")
	return c
}

// read reads the files of the flags.
func (c *caller) read() (err error) {
	if err = c.readAddr(); err == nil {
		c.key, err = readKey(c.keyFile)
	}
	if err == nil {
		c.creds, c.secure, err = transportCredentials(c.useTLS, c.caFile)
	}
	if err != nil {
		return exitError{exitUsage, err}
	}
	return nil
}

// readAddr also accepts the URL of a gateway.
func (c *caller) readAddr() error {
	wrong := fmt.Errorf("--addr %q: want host:port, http://host:port or https://host:port", c.addr)
	scheme, rest, isURL := strings.Cut(c.addr, "://")
	if isURL {
		u, err := url.Parse(c.addr)
		port := map[string]string{"http": "80", "https": "443"}[strings.ToLower(scheme)]
		if err != nil || port == "" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
			u.RawQuery != "" {
			return wrong
		}
		if port == "443" {
			c.useTLS = true
		} else if c.useTLS || c.caFile != "" {
			return fmt.Errorf("--addr %q is cleartext, and --tls or --tls-ca is given; write https://%s", c.addr, rest)
		}
		if u.Port() != "" {
			port = u.Port()
		}
		c.addr = net.JoinHostPort(u.Hostname(), port)
		return nil
	}
	if _, port, err := net.SplitHostPort(c.addr); err != nil || port == "" {
		return wrong
	}
	return nil
}

func (c *caller) dial(agent string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(c.addr,
		grpc.WithTransportCredentials(c.creds),
		grpc.WithUserAgent(agent),
		// The gateway limits the size of responses, not its client.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, usageError("--addr: %w", err)
	}
	return conn, nil
}

// explain describes the error of a call. If only one side uses TLS, it says so as probe does.
func (c *caller) explain(ctx context.Context, err error) error {
	if grpcstatus.Code(err) == codes.Unimplemented && status.InfoOf(err) == nil && c.asksOperators(ctx) {
		return refused("%s is the admin API of a gateway; calls go to its public port, the address listen in its "+
			"configuration (--addr)", c.addr)
	}
	if status.InfoOf(err).GetReason() == "CREDENTIAL_MISSING" {
		return refused("%s needs an API key or a token: give it with --key-file, or in CAPGATE_KEY (CREDENTIAL_MISSING)",
			c.addr)
	}
	target := container.Target{Addr: c.addr}
	if c.secure != nil {
		target.TLS = c.secure.Clone()
	}
	return explainCall(ctx, "gateway", target, "--addr", err)
}

// overPublic returns a command that calls a gateway's public port over gRPC, for at most so long; 0: no limit. The
// context that run gets has the credential. Every function of flags adds some.
func overPublic(use, about string, most time.Duration,
	run func(c *cobra.Command, conn grpc.ClientConnInterface, args []string) error,
	flags ...func(*pflag.FlagSet)) *cobra.Command {
	c := &cobra.Command{Use: use, Short: about}
	from := addCaller(c.Flags())
	for _, add := range flags {
		add(c.Flags())
	}
	completeOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		err := from.read()
		if err != nil {
			return err
		}
		conn, err := from.dial("capgate-" + c.Parent().Name())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		whole := c.Context()
		c.SetContext(from.shown(whole))
		defer within(c, most)()
		if err := run(c, conn, args); err != nil {
			return explainedBy(err, func(err error) error { return from.explain(whole, err) })
		}
		return nil
	}
	return c
}

// asksOperators reports whether the address is that of the admin API.
func (c *caller) asksOperators(ctx context.Context) bool {
	base, client := "http://"+c.addr, &http.Client{Timeout: requestTimeout}
	if c.secure != nil {
		base, client.Transport = "https://"+c.addr, &http.Transport{TLSClientConfig: c.secure.Clone()}
	}
	return portAt(ctx, client, base) == adminPort
}

// shown returns a context for calls with the credential.
func (c *caller) shown(ctx context.Context) context.Context {
	if c.key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.key)
}

// readKey reads the credential, and never quotes it in an error.
func readKey(file string) (string, error) { return readCredential(file, "--key-file") }

// readCredential reads the credential of a flag's file, or of CAPGATE_KEY without one. No error quotes it.
func readCredential(file, flag string) (string, error) {
	source, key := "CAPGATE_KEY", os.Getenv("CAPGATE_KEY")
	if file != "" {
		data, err := os.ReadFile(file) //nolint:gosec // the user's own file, named by the user
		if err != nil {
			return "", fmt.Errorf("%s: %s cannot be read: %w", flag, file, reasonOf(err))
		}
		source, key = flag+": "+file, strings.TrimSpace(string(data))
		if key == "" {
			return "", fmt.Errorf("%s is empty", source)
		}
	}
	if key != "" && !isCredential(key) {
		return "", fmt.Errorf("%s contains neither an API key, as capgate keys new prints it, nor a token", source)
	}
	return key, nil
}

func transportCredentials(useTLS bool, caFile string) (credentials.TransportCredentials, *tls.Config, error) {
	if !useTLS && caFile == "" {
		return insecure.NewCredentials(), nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile) //nolint:gosec // the user's own file, named by the user
		if err != nil {
			return nil, nil, fmt.Errorf("--tls-ca: %s cannot be read: %w", caFile, reasonOf(err))
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, nil, fmt.Errorf("--tls-ca: %s contains no PEM certificate", caFile)
		}
	}
	return credentials.NewTLS(cfg), cfg, nil
}
