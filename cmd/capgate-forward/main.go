// Command capgate-forward is `capgate forward` alone, as a program that is small enough for a capability container. It
// has no flags but --version: environment variables set it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/lib/buildinfo"
)

const help = `capgate-forward stands in for a capability container: it forwards every call to a gateway.

  SELU_CAPABILITY_ID     the capability that all calls are of (required)
  SELU_SESSION_ID        the session that all calls are of
  CAPGATE_URL            http://HOST:PORT or https://HOST:PORT of the gateway, or several with commas (required)
  CAPGATE_KEY            API key or token
  CAPGATE_KEY_FILE       file with the key, which may change
  CAPGATE_CA_FILE        PEM file of the authorities to trust instead of the system's
  CAPGATE_CERT_FILE      PEM file of a client certificate, and
  CAPGATE_CERT_KEY_FILE  of its key
  CAPGATE_LISTEN         address to listen on (default :50051)
  CAPGATE_PROXY          environment: the gateway is reached by the proxy of HTTPS_PROXY or HTTP_PROXY (default none)

--version shows the version.
Exit status: 0 stopped by a signal; 1 it cannot run; 2 wrong settings.
`

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// run forwards until a signal, and returns the exit status.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if args[0] == "--version" {
			fmt.Fprintln(stdout, "capgate-forward", buildinfo.Get().Version)
			return 0
		}
		fmt.Fprint(stderr, help)
		if args[0] == "-h" || args[0] == "--help" {
			return 0
		}
		return 2
	}
	forward.LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f, err := forward.Listen(forward.FromEnvironment(getenv), slog.New(slog.NewJSONHandler(stderr, nil)))
	if err == nil {
		err = f.Run(ctx)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "capgate-forward:", err)
	if wrong := new(forward.SettingError); errors.As(err, &wrong) {
		return 2
	}
	return 1
}
