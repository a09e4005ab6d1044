package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker; see the Makefile. A plain go build leaves them to buildInfo.
var version, commit, date = "", "", ""

// newVersionCommand returns the command capgate version.
func newVersionCommand(std stdio) *cobra.Command {
	o := &output{stdio: std}
	c := &cobra.Command{Use: "version", Short: "show the version",
		RunE: func(*cobra.Command, []string) error { return showVersion(o) }}
	o.addFlags(c.Flags())
	completeOutput(c)
	return c
}

// versionReport is what capgate version -o json prints.
type versionReport struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func showVersion(o *output) error {
	v, c, d := buildInfo()
	r := versionReport{v, c, d, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	return o.data(r, func(w io.Writer) {
		fmt.Fprintf(w, "capgate %s\ncommit %s\ndate %s\n%s %s\n", r.Version, r.Commit, r.Date, r.Go, r.Platform)
	})
}

// buildInfo returns version, commit and date from the linker, else from the go command, else "unknown".
func buildInfo() (v, c, d string) {
	v, c, d = version, commit, date
	if info, ok := debug.ReadBuildInfo(); ok {
		fill(&v, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				fill(&c, s.Value)
			case "vcs.time":
				fill(&d, s.Value)
			}
		}
	}
	for _, p := range []*string{&v, &c, &d} {
		fill(p, "unknown")
	}
	return v, c, d
}

func fill(p *string, value string) {
	if *p == "" {
		*p = value
	}
}
