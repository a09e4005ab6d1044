package cli

import (
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/gateway/frontdoor/health"
)

const healthcheckHelp = `It is the health check of a container whose image has no shell and no curl. It needs no
credential. A gateway that drains, or cannot serve calls, is unhealthy. On this machine, a certificate
that --tls-ca trusts may have any name: the one of a gateway seldom has localhost. With --ready it
reads /readyz of the admin API, at --addr.`

// readiness is the path of the admin API that reports whether a gateway is ready.
const readiness = "/readyz"

// newHealthcheckCommand returns the command capgate healthcheck.
func newHealthcheckCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "healthcheck", Short: "exit with 0 if a gateway accepts calls", Long: healthcheckHelp}
	p := &gatewayPort{command: c, anonymous: true, anyName: true}
	p.addAddress()
	ready := c.Flags().Bool("ready", false, "read /readyz of the admin API; the default of --addr is then that of "+
		"--admin")
	p.tls.add(c.Flags(), "")
	c.RunE = func(c *cobra.Command, _ []string) error {
		path, most := health.Path, int64(64) // "ok" or "leaving"
		if *ready {
			path, most = readiness, 4096
			if !c.Flags().Changed("addr") {
				p.addr = defaultAdmin()
			}
		}
		if err := p.read(); err != nil {
			return err
		}
		resp, err := p.send(c.Context(), http.MethodGet, path, http.NoBody)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, most))
		if err != nil || resp.StatusCode != http.StatusOK {
			return refused("%s of %s answers %s; /readyz of the admin API says why", path, p.base.Host, resp.Status)
		}
		_, err = std.out.Write(text)
		return err
	}
	return exits(c, "0 the gateway accepts calls; 1 it does not; 2 wrong command line;\n3 "+gatewayAway+".")
}
