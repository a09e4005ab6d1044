package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/lib/buildinfo"
)

// newVersionCommand returns the command capgate version.
func newVersionCommand(std stdio) *cobra.Command {
	o := &output{stdio: std}
	c := &cobra.Command{Use: "version", Short: "show the version",
		RunE: func(*cobra.Command, []string) error { return showVersion(o) }}
	o.addFlags(c.Flags())
	completeOutput(c)
	return c
}

// versionReport is the output of capgate version -o json.
type versionReport struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionOfProgram() versionReport {
	i := buildinfo.Get()
	return versionReport{i.Version, i.Commit, i.Date, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

func showVersion(o *output) error {
	r := versionOfProgram()
	return o.data(r, func(w io.Writer) {
		fmt.Fprintf(w, "capgate %s\ncommit %s\ndate %s\n%s %s\n", r.Version, r.Commit, r.Date, r.Go, r.Platform)
	})
}
