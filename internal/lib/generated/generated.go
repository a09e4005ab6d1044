// Package generated is what the commands that write generated files of the repository have in common: the argument
// -check, with which they compare the files.
package generated

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Main runs a command at the root of the repository. With the argument -check, check is true, and run must write
// nothing.
func Main(run func(root string, check bool) error) {
	check := len(os.Args) == 2 && os.Args[1] == "-check"
	if len(os.Args) > 1 && !check {
		fmt.Fprintln(os.Stderr, "usage: generate [-check], in the root of the repository")
		os.Exit(2)
	}
	if err := run(".", check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// Put writes files, whose paths are below root. If check is true, it writes nothing, and returns an error if a file
// differs.
func Put(root string, files map[string][]byte, check bool) error {
	for name, text := range files {
		file := filepath.Join(root, name)
		if check {
			if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, text) { //nolint:gosec // of the repository
				return fmt.Errorf("%s is out of date: run `make generate` and commit", name)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // of the repository
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // of the repository
			return err
		}
	}
	return nil
}
