package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
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
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// adminAccess is how a command reaches an admin API: its address, its TLS, and the operator's credential.
type adminAccess struct {
	addr             string
	prefix           string // of the flags' names; "" or "admin-"
	keyFile          string
	caFile           string
	certFile, certOf string // client certificate, and its key
	cleartext        bool   // a credential may be sent without TLS to another machine
	command          *cobra.Command
	given            string // a credential that is not stored yet; it comes first
	anonymous        bool   // requests have no credential

	once   sync.Once // guards what follows
	base   *url.URL
	secure *tls.Config // nil: cleartext
	wrong  error
}

// addAdmin adds the flags for the admin API.
func addAdmin(c *cobra.Command) *adminAccess { return addPrefixedAdmin(c, "") }

// addPrefixedAdmin adds the flags of a command that also has those of the public port.
func addPrefixedAdmin(c *cobra.Command, prefix string) *adminAccess {
	a := &adminAccess{prefix: prefix, command: c}
	fs := c.Flags()
	fs.StringVar(&a.addr, "admin", envOr("CAPGATE_ADMIN", "127.0.0.1:8081"),
		"`address` of the gateway's admin API, or its URL (CAPGATE_ADMIN)")
	key := "`file` with an operator's key or token; "
	if prefix == "" {
		key += "default CAPGATE_KEY, then what capgate login stored"
	} else {
		key += "default what capgate login stored"
	}
	fs.StringVar(&a.keyFile, prefix+"key-file", "", key)
	fs.StringVar(&a.caFile, prefix+"tls-ca", "",
		"PEM `file` of the certificate authorities to trust instead of the system's; implies https")
	fs.StringVar(&a.certFile, prefix+"tls-cert", "", "PEM `file` of the operator's certificate; implies https")
	fs.StringVar(&a.certOf, prefix+"tls-key", "", "PEM `file` of the certificate's key")
	fs.BoolVar(&a.cleartext, "insecure-cleartext", false,
		"send the credential to another machine even without TLS, where the network can read it")
	return a
}

// read reads the flags and their files, once, and checks that there is no danger for the credential.
func (a *adminAccess) read() error {
	a.once.Do(func() {
		if a.wrong = a.readAddress(); a.wrong == nil {
			a.wrong = a.readCredential()
		}
	})
	return a.wrong
}

func (a *adminAccess) readAddress() (err error) {
	if a.base, err = adminURL(a.addr); err != nil {
		return err
	}
	stored := storedFor(a.base)
	if a.caFile == "" {
		a.caFile = stored.CAFile
	}
	withTLS := a.caFile != "" || a.certFile != "" || a.certOf != ""
	switch {
	case withTLS && a.base.Scheme == "http" && strings.Contains(a.addr, "://"):
		return usageError("--admin %s is cleartext, and --%stls-ca or --%[2]stls-cert is given", a.base, a.prefix)
	case withTLS:
		a.base.Scheme = "https"
	case a.base.Scheme == "http":
		return nil
	}
	if _, a.secure, err = transportCredentials(true, a.caFile); err != nil {
		return exitError{exitUsage, err}
	}
	if a.certFile == "" && a.certOf == "" {
		return nil
	}
	pair, err := settings.KeyPair(a.certFile, a.certOf, settings.Files{})
	if err != nil {
		return exitError{exitUsage, fmt.Errorf("--%stls-cert, --%[1]stls-key: %w", a.prefix, err)}
	}
	a.secure.Certificates = []tls.Certificate{pair}
	return nil
}

// readCredential checks the credential before it is sent anywhere.
func (a *adminAccess) readCredential() error {
	key, source, err := a.credential()
	switch {
	case err != nil:
		return exitError{exitUsage, err}
	case key != "" && a.secure == nil && !a.cleartext && !isLoopback(a.base.Hostname()):
		return usageError("%s would be sent to %s without TLS, where the network can read it; use --admin https://%s, or "+
			"--insecure-cleartext", source, a.base.Host, a.base.Host)
	}
	if a.keyFile != "" {
		info, err := os.Stat(a.keyFile)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			fmt.Fprintf(a.command.ErrOrStderr(), "warning: every user of this machine can read %s; chmod o-r protects it\n",
				a.keyFile)
		}
	}
	return nil
}

// storedSource is the source of a credential in messages.
const storedSource = "the credential that capgate login stored"

// credential returns the operator's credential with a description of its source; "": there is none. The order is: the
// flag, the environment, capgate login, and the token of a gateway that this user started on this machine. It is
// evaluated for each request, because a file may change and a gateway may start again meanwhile.
func (a *adminAccess) credential() (key, source string, err error) {
	if a.given != "" || a.anonymous {
		return a.given, "the credential", nil
	}
	if a.keyFile != "" || a.prefix == "" && os.Getenv("CAPGATE_KEY") != "" {
		source = "the credential of CAPGATE_KEY"
		if a.keyFile != "" {
			source = "the credential of --" + a.prefix + "key-file " + a.keyFile
		}
		key, err = readCredential(a.keyFile, "--"+a.prefix+"key-file")
		return key, source, err
	}
	stored, err := loadCredentials()
	if err != nil {
		return "", "", err
	}
	if of, ok := stored.Gateways[storeName(a.base)]; ok {
		return of.Credential, storedSource, nil
	}
	if !isLoopback(a.base.Hostname()) {
		return "", "", nil
	}
	switch key, err = startToken(a.base.Host); {
	case err == nil:
		return key, "the token of the gateway's start", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	}
	return "", "", fmt.Errorf("the token of the gateway's start: %w", err)
}

// header returns the value of authorization for a request; "": no credential.
func (a *adminAccess) header() string {
	key, _, err := a.credential()
	if err != nil || key == "" { // an error was reported by read, unless a file has just changed
		return ""
	}
	return "Bearer " + key
}

// perRPC sends the credential over gRPC. read has checked where it goes.
type perRPC struct{ of *adminAccess }

var _ credentials.PerRPCCredentials = perRPC{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (p perRPC) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if header := p.of.header(); header != "" {
		return map[string]string{"authorization": header}, nil
	}
	return nil, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (perRPC) RequireTransportSecurity() bool { return false }

// explainRefusal adds to the admin API's refusal of an operator what to do about it. Other texts stay.
func (a *adminAccess) explainRefusal(reason, text string) string {
	_, source, _ := a.credential()
	signIn := "sign in with capgate login" + a.loginFlag() + ", or give an operator's key with --" + a.prefix + "key-file"
	if a.prefix == "" {
		signIn += " or CAPGATE_KEY"
	}
	switch reason {
	case "OPERATOR_UNKNOWN", "CREDENTIAL_MISSING", "CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED":
		if source == "" {
			return a.base.Host + " asks its operators for a credential: " + signIn
		}
		if source == storedSource {
			signIn += "; capgate logout deletes the stored one"
		}
		return source + " is not accepted by " + a.base.Host + ", or not any more: " + signIn
	case "LAST_BACKEND":
		return text + " (--force)"
	case "ROLE_MISSING", "OPERATOR_TENANT":
		if source == "" {
			source = "the client certificate"
		}
		return text + "; used was " + source + ". To be somebody else, " + signIn
	}
	return text
}

// loginFlag is the flag that lets capgate login reach the same admin API.
func (a *adminAccess) loginFlag() string {
	if a.addr == envOr("CAPGATE_ADMIN", "127.0.0.1:8081") {
		return ""
	}
	return " --admin " + a.addr
}

// isLoopback reports whether a host of a URL is this machine itself.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isCredential reports whether a text has the form of anything that authenticates.
func isCredential(text string) bool {
	_, _, isKey := tenant.ParseCredential(text)
	return isKey || token.LooksLikeToken(text) || isOperatorToken(text)
}

// target is the address for diagnoses.
func (a *adminAccess) target() container.Target { return targetOf(a.base, a.secure) }

// dial returns a client of the admin API over gRPC, which may be unavailable for long and is found again soon then.
func (a *adminAccess) dial(agent string) (*grpc.ClientConn, error) {
	if err := a.read(); err != nil {
		return nil, err
	}
	creds, port := insecure.NewCredentials(), "80"
	if a.secure != nil {
		creds, port = credentials.NewTLS(a.secure.Clone()), "443"
	}
	if a.base.Port() != "" {
		port = a.base.Port()
	}
	return grpc.NewClient("dns:///"+net.JoinHostPort(a.base.Hostname(), port),
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(perRPC{a}),
		grpc.WithUserAgent(agent),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second,
			PermitWithoutStream: true}))
}
