package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"testing"
)

func TestParseFlagsAnywhere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args       []string
		positional []string
		name       string
		on         bool
	}{
		{nil, nil, "", false},
		{[]string{"a", "b"}, []string{"a", "b"}, "", false},
		{[]string{"--on", "--name", "n", "a", "b"}, []string{"a", "b"}, "n", true},
		{[]string{"a", "-name=n", "b", "-on"}, []string{"a", "b"}, "n", true},
		{[]string{"a", "-", "--on"}, []string{"a", "-"}, "", true},
		{[]string{"a", "--", "--on", "b"}, []string{"a", "--on", "b"}, "", false},
		{[]string{"--", "--"}, []string{"--"}, "", false},
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		name, on := fs.String("name", "", ""), fs.Bool("on", false, "")
		positional, err := parseFlags(fs, tc.args)
		if err != nil || !slices.Equal(positional, tc.positional) || *name != tc.name || *on != tc.on {
			t.Errorf("%q: %q, name %q, on %v, error %v", tc.args, positional, *name, *on, err)
		}
	}
}

func TestParseFlagsErrors(t *testing.T) {
	t.Parallel()
	for want, args := range map[error][]string{flag.ErrHelp: {"a", "-h"}, nil: {"a", "--nope"}} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		_, err := parseFlags(fs, args)
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
