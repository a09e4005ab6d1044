package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker; see the Makefile. A plain go build leaves them to buildInfo.
var version, commit, date = "", "", ""

func runVersion(_ context.Context, args []string, std stdio) int {
	if len(args) > 0 {
		fmt.Fprintln(std.err, "Usage: capgate version")
		return exitUsage
	}
	v, c, d := buildInfo()
	fmt.Fprintf(std.out, "capgate %s\ncommit %s\ndate %s\n%s %s/%s\n", v, c, d, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	return 0
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
