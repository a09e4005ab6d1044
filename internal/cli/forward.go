package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/telemetry"
)

const forwardHelp = `The command listens where a capability container would, one of Selu for example, and forwards every
call to a gateway over one connection. It adds the capability, the session and the key, which the orchestrator
does not send. The gateway answers all calls, health checks too.

Flags take precedence over environment variables, so an image needs no arguments. The key is in
--key-file, which is read again when it changes, or in CAPGATE_KEY. SIGTERM or Ctrl-C lets calls finish.`

// newForwardCommand returns the command capgate forward.
func newForwardCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "forward",
		Short: "stand in for a capability container, and forward its calls to a gateway",
		Long:  forwardHelp, Example: "  capgate forward --capability weather --url https://gateway.example.com"}
	s := forward.FromEnvironment(os.Getenv)
	addForward(c.Flags(), &s)
	c.RunE = func(c *cobra.Command, _ []string) error {
		forward.LimitMemory()
		f, err := forward.Listen(s, telemetry.NewLogger("json", slog.LevelInfo, std.err))
		if err == nil {
			return f.Run(c.Context())
		}
		if wrong := new(forward.SettingError); errors.As(err, &wrong) {
			return usageError("%w", inFlags(wrong))
		}
		return err
	}
	return exits(c, "0 stopped by a signal; 1 it cannot run, or calls were cut off; 2 wrong settings.")
}

// forwardFlags are the flags for the environment variables of forward.
var forwardFlags = map[string]string{
	forward.EnvCapability: "capability", forward.EnvSession: "session", forward.EnvURL: "url",
	forward.EnvKeyFile: "key-file", forward.EnvCAFile: "tls-ca", forward.EnvCertFile: "tls-cert",
	forward.EnvCertKey: "tls-key", forward.EnvListen: "listen", forward.EnvProxy: "proxy",
}

// inFlags names the flag beside the environment variable.
func inFlags(e *forward.SettingError) error {
	if flag := forwardFlags[e.Setting]; flag != "" {
		return fmt.Errorf("--%s, %w", flag, e)
	}
	return e
}

func addForward(fs *pflag.FlagSet, s *forward.Settings) {
	add := func(v *string, env, about string) {
		fs.StringVar(v, forwardFlags[env], *v, about+" ("+env+")")
	}
	add(&s.Capability, forward.EnvCapability, "`id` of the capability of all calls")
	add(&s.Session, forward.EnvSession, "`id` of the session of all calls")
	add(&s.URL, forward.EnvURL, "`url` of the gateway, http://HOST:PORT or https://HOST:PORT, or several with commas")
	add(&s.KeyFile, forward.EnvKeyFile, "`file` with the API key or token")
	add(&s.CAFile, forward.EnvCAFile, "PEM `file` of the certificate authorities to trust instead of the system's")
	add(&s.CertFile, forward.EnvCertFile, "PEM `file` of a client certificate")
	add(&s.CertKey, forward.EnvCertKey, "PEM `file` of the client certificate's key")
	if s.Listen == "" {
		s.Listen = forward.DefaultListen
	}
	add(&s.Listen, forward.EnvListen, "`address` to listen on")
	add(&s.Proxy, forward.EnvProxy,
		"`way` to the gateway: none, or environment for the proxy of HTTPS_PROXY or HTTP_PROXY")
	fs.DurationVar(&s.Wait, "wait", forward.DefaultWait, "how long a call that cannot start waits for a gateway")
	fs.DurationVar(&s.Drain, "drain", forward.DefaultDrain, "how long calls may take to end after SIGTERM")
}
