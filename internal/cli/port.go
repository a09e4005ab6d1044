package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// gatewayPort is one of a gateway's two ports, as a command reaches it: its address, TLS, and the credential.
type gatewayPort struct {
	operators bool   // the admin API; else the port for callers
	prefix    string // of the flags' names; "" or "admin-"
	addr      string
	keyFile   string
	tls       tlsFlags
	cleartext bool // a credential of an operator may be sent without TLS to another machine
	command   *cobra.Command
	given     string // a credential that is not stored yet, or has been read; it comes first
	anonymous bool   // requests have no credential
	anyName   bool   // a certificate of this machine that --tls-ca trusts may have any name

	once   sync.Once // guards what follows
	base   *url.URL
	secure *tls.Config  // nil: cleartext
	client *http.Client // it follows no redirects, which might lead the credential elsewhere
	wrong  error
}

// addPublic adds the flags for the port for callers, and addAdmin those for the admin API.
func addPublic(c *cobra.Command) *gatewayPort { return addPort(c, false, "") }

func addAdmin(c *cobra.Command) *gatewayPort { return addPort(c, true, "") }

// addPort adds the flags for a port. Their names begin with prefix in a command that has those of both ports.
func addPort(c *cobra.Command, operators bool, prefix string) *gatewayPort {
	p, flags := &gatewayPort{operators: operators, prefix: prefix, command: c}, c.Flags()
	p.addAddress()
	p.tls.add(flags, prefix)
	switch key := prefix + "key-file"; {
	case !operators:
		flags.StringVar(&p.keyFile, key, "", "`file` with the API key or token, for a gateway with tenants; "+
			"alternatively set CAPGATE_KEY (a command line is visible to other users)")
		return p
	case prefix == "":
		flags.StringVar(&p.keyFile, key, "",
			"`file` with an operator's key or token; default CAPGATE_KEY, then what capgate login stored")
	default:
		flags.StringVar(&p.keyFile, key, "",
			"`file` with an operator's key or token; default what capgate login stored")
	}
	flags.BoolVar(&p.cleartext, "insecure-cleartext", false,
		"send the credential to another machine even without TLS, where the network can read it")
	return p
}

func (p *gatewayPort) addAddress() {
	if p.operators {
		p.command.Flags().StringVar(&p.addr, p.flag(), defaultAdmin(),
			"`address` of the gateway's admin API, or its URL (CAPGATE_ADMIN)")
		return
	}
	p.command.Flags().StringVar(&p.addr, p.flag(), "localhost:8080",
		"`host:port` of the gateway's public port, or its URL; https:// implies --tls")
}

// defaultAdmin returns the address of the admin API without a flag.
func defaultAdmin() string { return envOr("CAPGATE_ADMIN", "127.0.0.1:8081") }

// flag returns the name of the flag for the address, and name what the port is in messages.
func (p *gatewayPort) flag() string {
	if p.operators {
		return "admin"
	}
	return "addr"
}

func (p *gatewayPort) name() string {
	if p.operators {
		return "admin API"
	}
	return "gateway"
}

// setting says where the address is set.
func (p *gatewayPort) setting() string {
	if p.operators {
		return "the flag --admin or the variable CAPGATE_ADMIN sets its address"
	}
	return "the flag --addr sets its address"
}

// agent returns the name of the command as an HTTP or gRPC client, such as capgate-invoke.
func (p *gatewayPort) agent() string { return "capgate-" + strings.Fields(p.command.CommandPath())[1] }

// read reads the flags and their files, once, and checks that there is no danger for the credential.
func (p *gatewayPort) read() error {
	p.once.Do(func() {
		if p.wrong = p.readAddress(); p.wrong == nil {
			p.wrong = p.readCredential()
		}
		p.client = httpclient.New(httpclient.Config{Name: p.agent(), TLS: p.secure.Clone(),
			Timeout: requestTimeout, Handshake: connectTimeout, Proxy: http.ProxyFromEnvironment, Compression: true})
	})
	return p.wrong
}

func (p *gatewayPort) readAddress() (err error) {
	if p.base, err = p.url(); err != nil {
		return err
	}
	if p.operators && p.tls.caFile == "" {
		p.tls.caFile = storedFor(p.base).CAFile
	}
	if p.tls.given() {
		if p.base.Scheme == "http" && strings.Contains(p.addr, "://") {
			return usageError("--%s %s is cleartext, and --%[3]stls, --%[3]stls-ca or --%[3]stls-cert is given; write "+
				"https://%[4]s", p.flag(), p.base.Redacted(), p.prefix, p.base.Host)
		}
		p.base.Scheme = "https"
	}
	if p.base.Scheme == "https" {
		p.secure, err = p.tls.config()
	}
	if p.anyName && p.secure != nil && p.secure.RootCAs != nil && weburl.IsLoopback(p.base.Hostname()) {
		tlsfiles.TrustAnyName(p.secure)
	}
	return err
}

// url returns the URL of the address, which may also be an address that a gateway listens at.
func (p *gatewayPort) url() (*url.URL, error) {
	wrong := usageError("--%s: want host:port, http://host:port or https://host:port", p.flag())
	if strings.Contains(p.addr, "://") {
		u, err := url.Parse(p.addr)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" ||
			!p.operators && (u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
			return nil, wrong
		}
		return u, nil
	}
	host, port, err := net.SplitHostPort(p.addr)
	if err != nil || port == "" {
		return nil, wrong
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, nil
}

// readCredential checks the credential before it is sent anywhere.
func (p *gatewayPort) readCredential() error {
	key, source, err := p.credential()
	switch {
	case err != nil:
		return exitError{exitUsage, err}
	case !p.operators:
		p.given = key // the file may be a pipe, which cannot be read again
		return nil
	case key != "" && p.secure == nil && !p.cleartext && !weburl.IsLoopback(p.base.Hostname()):
		return usageError("%s would be sent to %s without TLS, where the network can read it; use --admin https://%s, "+
			"or --insecure-cleartext", source, p.base.Host, p.base.Host)
	}
	if p.keyFile != "" {
		info, err := os.Stat(p.keyFile)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			fmt.Fprintf(p.command.ErrOrStderr(),
				"warning: every user of this machine can read %s; chmod o-r protects it\n", p.keyFile)
		}
	}
	return nil
}

// storedSource is the source of a credential in messages.
const storedSource = "the credential that capgate login stored"

// credential returns the credential with a description of its source; "" if there is none. The order is: the flag, the
// environment, and for operators capgate login, and the token of a gateway that this user started on this machine. That
// of operators is evaluated for each request, because a file may change and a gateway may start again meanwhile.
func (p *gatewayPort) credential() (key, source string, err error) {
	if p.given != "" || p.anonymous {
		return p.given, "the credential", nil
	}
	if p.keyFile != "" || p.prefix == "" && os.Getenv("CAPGATE_KEY") != "" {
		source = "the credential of CAPGATE_KEY"
		if p.keyFile != "" {
			source = "the credential of --" + p.prefix + "key-file " + p.keyFile
		}
		key, err = readCredential(p.keyFile, "--"+p.prefix+"key-file")
		return key, source, err
	}
	if !p.operators {
		return "", "", nil
	}
	stored, err := loadCredentials()
	if err != nil {
		return "", "", err
	}
	if of, ok := stored.Gateways[storeName(p.base)]; ok {
		return of.Credential, storedSource, nil
	}
	if !weburl.IsLoopback(p.base.Hostname()) {
		return "", "", nil
	}
	switch key, err = startToken(p.base.Host); {
	case err == nil:
		return key, "the token of the gateway's start", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	}
	return "", "", fmt.Errorf("the token of the gateway's start: %w", err)
}

// header returns the value of authorization for a request; "": no credential.
func (p *gatewayPort) header() string {
	key, _, err := p.credential()
	if err != nil || key == "" { // an error was reported by read, unless a file has just changed
		return ""
	}
	return "Bearer " + key
}

// perRPC sends the credential over gRPC. read has checked where it goes.
type perRPC struct{ of *gatewayPort }

var _ credentials.PerRPCCredentials = perRPC{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (r perRPC) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if header := r.of.header(); header != "" {
		return map[string]string{"authorization": header}, nil
	}
	return nil, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (perRPC) RequireTransportSecurity() bool { return false }

// target returns the address as host:port, and its TLS.
func (p *gatewayPort) target() container.Target {
	of := container.Target{Addr: p.base.Host}
	if p.secure != nil {
		of.TLS = p.secure.Clone()
	}
	switch {
	case isSocket(p.addr):
		of.Addr = p.addr
	case p.base.Port() == "":
		of.Addr = net.JoinHostPort(p.base.Hostname(), map[string]string{"http": "80", "https": "443"}[p.base.Scheme])
	}
	return of
}

// isSocket reports whether an address is that of a unix socket, at which a listener serves callers.
func isSocket(addr string) bool { return strings.HasPrefix(addr, "unix:") }

// dial returns a client over gRPC of the port, or of the same port of another replica. A gateway may be unavailable for
// long, and is found again soon then.
func (p *gatewayPort) dial(replica string) (*grpc.ClientConn, error) {
	if err := p.read(); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if p.secure != nil {
		creds = credentials.NewTLS(p.secure.Clone())
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds), grpc.WithPerRPCCredentials(perRPC{p}),
		grpc.WithUserAgent(buildinfo.UserAgent(p.agent())),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{
			BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32))} // the gateway limits the size of responses
	if p.operators {
		options = append(options,
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second,
				PermitWithoutStream: true}))
	}
	addr := cmp.Or(replica, p.target().Addr)
	if !isSocket(addr) {
		addr = "dns:///" + addr
	}
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		return nil, usageError("--%s: %w", p.flag(), err)
	}
	return conn, nil
}
