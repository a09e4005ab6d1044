package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/pprof/profile"
)

const (
	profileFile = "tools/release/capgate.pgo" // from the root of the repository
	noProfile   = "off"                       // in place of a profile

	maxProfile = 500 << 10
)

// mergeProfiles merges CPU profiles, which bench --profiles records, into a file for the compiler. It keeps functions
// and lines, without paths, addresses and times.
func mergeProfiles(_ context.Context, args []string, stdout io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: release profile FILE PROFILE [PROFILE]")
	}
	var all []*profile.Profile
	for _, name := range args[1:] {
		p, err := readProfile(name)
		if err != nil {
			return err
		}
		if err := bare(p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return err
	}
	merged.TimeNanos = 0
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	err = merged.Write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	if info.Size() > maxProfile {
		return fmt.Errorf("%s has %d bytes, more than %d; record shorter windows", args[0], info.Size(), maxProfile)
	}
	_, err = fmt.Fprintf(stdout, "%s: %d bytes of %d profiles\n", args[0], info.Size(), len(all))
	return err
}

func readProfile(name string) (*profile.Profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it has been read
	p, err := profile.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// bare removes everything that the compiler does not read from a profile.
func bare(p *profile.Profile) error {
	if err := p.Aggregate(true, true, false, true, false, false); err != nil {
		return err
	}
	p.Mapping, p.Comments = nil, nil
	for _, l := range p.Location {
		l.Mapping = nil
	}
	for _, s := range p.Sample {
		s.Label, s.NumLabel, s.NumUnit = nil, nil, nil
	}
	return p.CheckValid()
}
