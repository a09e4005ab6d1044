package main

import (
	"context"
	"path/filepath"
	"runtime"
	"time"
)

// programs lists the programs of a release.
var programs = []string{"capgate", "capgate-forward"}

// program returns the path of a built program.
func (r *release) program(p platform, name string) string {
	return filepath.Join(r.work, p.system+"_"+p.arch, name)
}

// makePrograms builds the programs for each platform: static, and without paths of this machine.
func (r *release) makePrograms(ctx context.Context) error {
	for _, p := range r.platforms {
		for _, name := range programs {
			if err := r.build(ctx, p, name, r.program(p, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// build builds one program.
func (r *release) build(ctx context.Context, p platform, name, to string) error {
	// GOFLAGS and architecture levels would change the build.
	env := []string{"CGO_ENABLED=0", "GOOS=" + p.system, "GOARCH=" + p.arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0",
		"GOEXPERIMENT=", "GOWORK=off"}
	_, err := r.command(ctx, env, "go", r.buildArgs(name, to)...)
	return err
}

// buildArgs returns the arguments of the go command that builds a program.
func (r *release) buildArgs(name, to string) []string {
	info := module + "/internal/lib/buildinfo"
	flags := "-s -w -X " + info + ".version=" + r.version + " -X " + info + ".commit=" + r.commit +
		" -X " + info + ".date=" + r.date.Format(time.RFC3339)
	return []string{"build", "-trimpath", "-buildvcs=false", "-pgo=" + r.profileOf(name), "-ldflags", flags, "-o", to,
		"./cmd/" + name}
}

// profileOf returns the profile for the compilation of a program. capgate-forward has none.
func (r *release) profileOf(name string) string {
	if name != "capgate" || r.profile == noProfile {
		return noProfile
	}
	return filepath.Join(r.source, r.profile)
}

// own returns capgate for this machine, which writes completions and the first configuration. If the release lacks this
// machine's platform, it is an intermediate file.
func (r *release) own(ctx context.Context) (string, error) {
	for _, p := range r.platforms {
		if p.system == runtime.GOOS && p.arch == runtime.GOARCH {
			return r.program(p, "capgate"), nil
		}
	}
	to := filepath.Join(r.work, "own", "capgate")
	return to, r.build(ctx, platform{runtime.GOOS, runtime.GOARCH}, "capgate", to)
}
