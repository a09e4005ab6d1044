package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/operator"
)

const loginHelp = `You sign in with a browser of this machine, which then lets the command in; the session has
your roles, and ends with yours. The command waits ten minutes. With --no-browser, the browser of
another machine shows a code to type here.

With --key-file, it stores an operator's key instead; "-" reads it from standard input. The admin API is
asked about the key first. The file is credentials.json in $XDG_CONFIG_HOME/capgate, readable only by you.
Commands that call the same admin API use it, unless --key-file or CAPGATE_KEY gives another one.`

const logoutHelp = `It deletes what capgate login stored for the admin API. The session of a person also ends at the
gateway.`

// stdinFile is the name of standard input in place of a file.
const stdinFile = "-"

// loginCommand is capgate login.
type loginCommand struct {
	stdio
	access  *gatewayPort
	keyFile string
}

// operatorOf is the body of GET /v1/me.
type operatorOf struct {
	Name     string   `json:"name"`
	Tenant   string   `json:"tenant"`
	Roles    []string `json:"roles"`
	Insecure bool     `json:"insecure"`
}

// newLoginCommand returns the command capgate login.
func newLoginCommand(std stdio) *cobra.Command {
	l := &loginCommand{stdio: std}
	c := &cobra.Command{Use: "login", Short: "store a credential for a gateway's admin API", Long: loginHelp}
	l.access = addAdmin(c)
	c.Flags().Lookup("key-file").Usage = "`file` with the operator's key or token to store, or - for standard input"
	remote := c.Flags().Bool("no-browser", false, "sign in with a browser of another machine, and type its code here")
	c.RunE = func(c *cobra.Command, _ []string) error {
		l.keyFile, l.access.keyFile = l.access.keyFile, ""
		switch {
		case l.keyFile != "" && *remote:
			return usageError("--no-browser and --key-file exclude each other; give one of the two")
		case l.keyFile == "":
			return l.signIn(c.Context(), *remote)
		}
		return l.storeKey(c.Context())
	}
	return c
}

// storeKey stores a key after the admin API has accepted it.
func (l *loginCommand) storeKey(ctx context.Context) error {
	key, err := l.readKey()
	if err != nil {
		return exitError{exitUsage, err}
	}
	if strings.HasPrefix(key, operator.StartPrefix) {
		return usageError("a start token is valid only while its gateway runs, and is not stored; commands on this " +
			"machine find it")
	}
	who, err := l.ask(ctx, key)
	if err != nil {
		return err
	}
	return l.store(storedCredential{Credential: key}, who)
}

// readKey reads the key from its file or from standard input.
func (l *loginCommand) readKey() (string, error) {
	if l.keyFile != stdinFile {
		return readCredential(l.keyFile, "--key-file")
	}
	text, err := io.ReadAll(io.LimitReader(l.in, maxCredentials))
	key := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("standard input: %w", err)
	case !isCredential(key):
		return "", errors.New("standard input has neither an API key, as capgate keys new prints it, nor a token")
	}
	return key, nil
}

// ask returns the operator that a credential makes of its holder.
func (l *loginCommand) ask(ctx context.Context, key string) (who operatorOf, _ error) {
	l.access.given, l.access.anonymous = key, false
	return who, l.access.do(ctx, http.MethodGet, "/v1/me", nil, &who)
}

// store writes the credential for later commands.
func (l *loginCommand) store(c storedCredential, who operatorOf) error {
	if l.access.tls.caFile != "" {
		if file, err := filepath.Abs(l.access.tls.caFile); err == nil {
			c.CAFile = file
		}
	}
	name, err := changeCredentials(func(all map[string]storedCredential) { all[storeName(l.access.base)] = c })
	if err != nil {
		return refused("the credential cannot be stored: %w", err)
	}
	fmt.Fprintf(l.out, "signed in at %s as %s\n", l.access.base.Host, who)
	if os.Getenv("CAPGATE_KEY") != "" {
		fmt.Fprintln(l.err, "warning: CAPGATE_KEY is set, and is used in place of "+name)
	}
	return nil
}

// String describes an operator.
func (o operatorOf) String() string {
	text := untrusted.Word(o.Name)
	if len(o.Roles) > 0 {
		text += ": " + strings.Join(o.Roles, ", ")
	}
	switch {
	case o.Insecure:
		text += " (the admin API is insecure: it needs no credential)"
	case o.Tenant != "":
		text += " of tenant " + untrusted.Word(o.Tenant)
	}
	return text
}

// newLogoutCommand returns the command capgate logout.
func newLogoutCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "logout", Short: "delete the stored credential for a gateway's admin API",
		Long: logoutHelp}
	p := &gatewayPort{operators: true, command: c}
	p.addAddress()
	c.Flags().StringVar(&p.tls.caFile, "tls-ca", "",
		"PEM `file` of the certificate authorities to trust; default that of the login")
	c.RunE = func(c *cobra.Command, _ []string) error {
		base, err := p.url()
		if err != nil {
			return err
		}
		was, err := loadCredentials()
		if err != nil {
			return refused("%w", err)
		}
		of, stored := was.Gateways[storeName(base)]
		if !stored {
			fmt.Fprintf(std.out, "no credential is stored for %s\n", base.Host)
			return nil
		}
		if of.Session {
			p.given = of.Credential
			if err := p.do(c.Context(), http.MethodPost, "/cli/end", struct{}{}, &struct{}{}); err != nil {
				fmt.Fprintf(std.err, "warning: the session remains valid until it expires: %v\n", err)
			}
		}
		_, err = changeCredentials(func(all map[string]storedCredential) { delete(all, storeName(base)) })
		if err != nil {
			return refused("the credential cannot be deleted: %w", err)
		}
		fmt.Fprintf(std.out, "signed out at %s\n", base.Host)
		return nil
	}
	return c
}
