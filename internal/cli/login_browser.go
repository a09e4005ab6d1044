package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// signInTime is the time for which capgate login waits for a person.
const signInTime = 10 * time.Minute

// signIn signs a person in with a browser, which passes a code to this program (RFC 8252, RFC 7636).
func (l *loginCommand) signIn(ctx context.Context, remote bool) error {
	l.access.anonymous = true
	if err := l.access.read(); err != nil {
		return err
	}
	if l.access.secure == nil && !l.access.cleartext && !weburl.IsLoopback(l.access.base.Hostname()) {
		return usageError("the session would come without TLS, where the network can read it; use --admin https://%s, "+
			"or --insecure-cleartext", l.access.base.Host)
	}
	ctx, cancel := context.WithTimeout(ctx, signInTime)
	defer cancel()
	verifier, state := rand.Text()+rand.Text(), rand.Text()[:8]
	code, err := l.codeOf(ctx, strings.TrimSuffix(l.access.base.String(), "/"), verifier, state, remote)
	if err != nil {
		return refused("%w", err)
	}
	var made struct {
		Credential string    `json:"credential"`
		Expires    time.Time `json:"expire_time"`
	}
	if err := l.access.do(ctx, http.MethodPost, "/cli/token", map[string]string{"code": code, "verifier": verifier},
		&made); err != nil {
		return err
	}
	who, err := l.ask(ctx, made.Credential)
	if err != nil {
		return err
	}
	return l.store(storedCredential{Credential: made.Credential, Session: true, ExpireTime: &made.Expires}, who)
}

// codeOf returns the code that the browser gets.
func (l *loginCommand) codeOf(ctx context.Context, base, verifier, state string, remote bool) (string, error) {
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{"port": {"0"}, "state": {state}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}
	if remote {
		fmt.Fprintf(l.err, "Open this address in a browser; it shows %s:\n\n  %s/cli?%s\n\nThe code: ", state, base,
			query.Encode())
		line, err := bufio.NewReader(l.in).ReadString('\n')
		if code := strings.TrimSpace(line); code != "" {
			return code, nil
		}
		return "", errors.Join(errors.New("no code was typed"), err)
	}
	ln, err := listenForBrowser(ctx, 0)
	if err != nil {
		return "", fmt.Errorf("%w; --no-browser needs no port", err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	query.Set("port", port)
	address := base + "/cli?" + query.Encode()
	fmt.Fprintf(l.err, "Sign in with a browser of this machine; it shows %s:\n\n  %s\n\n", state, address)
	got, err := fromBrowser(ctx, ln, "capgate login", address, state)
	return got.Get("code"), err
}

// listenForBrowser listens for the redirect of a browser of this machine. Port 0 is any.
func listenForBrowser(ctx context.Context, port uint16) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("the browser cannot answer here: %w", err)
	}
	return ln, nil
}

// fromBrowser opens an address in a browser, and returns the parameters of the redirect with that state. It closes ln.
func fromBrowser(ctx context.Context, ln net.Listener, command, address, state string) (url.Values, error) {
	redirects := make(chan url.Values, 1)
	server := &http.Server{ReadHeaderTimeout: requestTimeout, Handler: receiver(command, state, redirects)}
	go func() { _ = server.Serve(ln) }() // ends with Close
	defer func() { _ = server.Close() }()
	openBrowser(ctx, address)
	select {
	case got := <-redirects:
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // the browser gets its page
		if failure := got.Get("error"); failure != "" {
			return nil, fmt.Errorf("sign-in was refused: %s", untrusted.Beginning(failure, maxWhy))
		}
		return got, nil
	case <-ctx.Done():
		return nil, errors.New("sign-in was not completed")
	}
}

// receiver takes the redirect of a browser with a code or an error.
func receiver(command, state string, redirects chan<- url.Values) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		got := r.URL.Query()
		if r.Method != http.MethodGet || r.URL.Path != "/" || got.Get("code") == "" && got.Get("error") == "" ||
			subtle.ConstantTimeCompare([]byte(got.Get("state")), []byte(state)) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintln(w, "This is not the answer that "+command+" waits for.")
			return
		}
		select {
		case redirects <- got:
		default: // there is one already
		}
		fmt.Fprintln(w, "Return to the terminal: "+command+" says there whether you are signed in. "+
			"You may close this window.")
	})
}

// openBrowser opens an address where there is a desktop; people can also copy it.
func openBrowser(ctx context.Context, address string) {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return
	}
	_ = exec.CommandContext(context.WithoutCancel(ctx), name, address).Start() //nolint:gosec // our own address
}
