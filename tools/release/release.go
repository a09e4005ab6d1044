package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// module is the path of the gateway's module, and project is its address.
const (
	module  = "github.com/capgate/capgate"
	project = "https://" + module
)

var isVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// A release is the state shared by the steps.
type release struct {
	version   string // with the v
	source    string // root directory of the repository
	out       string // directory of the files
	dirty     bool   // uncommitted changes are permitted
	platforms []platform
	key       *ecdsa.PrivateKey // signs the checksums; nil if unsigned
	cosign    string            // command that also signs the checksums; "" if none
	profile   string            // CPU profile of capgate, from source; noProfile: none
	log       *log.Logger

	work   string    // directory for intermediate files
	commit string    // the released commit
	date   time.Time // of the commit, in UTC
}

// A platform is an operating system and an architecture, as the go command names them.
type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "/" + p.arch }

var allPlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// number returns the version without the v.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// file returns the path of a file of the release.
func (r *release) file(name string) string { return filepath.Join(r.out, name) }

// open finds the commit and creates the output directory.
func (r *release) open(ctx context.Context) error {
	var err error
	if r.source, err = filepath.Abs(r.source); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if r.commit, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	if err := r.checkTree(ctx); err != nil {
		return err
	}
	date, err := r.git(ctx, "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	if r.date, err = time.Parse(time.RFC3339, date); err != nil {
		return err
	}
	r.date = r.date.UTC()
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	left, err := os.ReadDir(r.out)
	if len(left) > 0 {
		return fmt.Errorf("%s is not empty; delete it first", r.out)
	}
	return err
}

// checkTree rejects files that differ from the commit, and a version that is the tag of another commit.
func (r *release) checkTree(ctx context.Context) error {
	if r.dirty {
		return nil
	}
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return errors.New("there are uncommitted changes; commit them first:\n" + changed)
	}
	tagged, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/tags/"+r.version+"^{commit}")
	if err == nil && tagged != r.commit {
		return fmt.Errorf("the tag %s is commit %.12s, not %.12s; check out the tag", r.version, tagged, r.commit)
	}
	return nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	return r.command(ctx, nil, "git", args...)
}

// command runs a program in the root of the repository and returns its standard output without surrounding space.
func (r *release) command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.source
	cmd.Env = append(cmd.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return strings.TrimSpace(out.String()), nil
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	return os.WriteFile(r.file(name), content, 0o644)
}

// files returns the names of all files of the release so far, sorted.
func (r *release) files() (names []string, err error) {
	entries, err := os.ReadDir(r.out)
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// sum returns the SHA-256 of a file of the release, in hex.
func (r *release) sum(name string) (string, error) {
	f, err := os.Open(r.file(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it has been read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
