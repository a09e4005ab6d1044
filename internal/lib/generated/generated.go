// Package generated is shared by the commands that write generated files of the repository: it implements the argument
// -check, which compares the files.
package generated

import (
	"bytes"
	"fmt"
	"io/fs"
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
// differs, or if one of dirs, which are directories below root, has another file.
func Put(root string, files map[string][]byte, check bool, dirs ...string) error {
	for name, text := range files {
		file := filepath.Join(root, name)
		if check {
			if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, text) { //nolint:gosec // of the repository
				return fmt.Errorf("%s is out of date: run `make generate` and commit", file)
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
	if !check {
		return nil
	}
	for _, dir := range dirs {
		if err := only(root, dir, files); err != nil {
			return err
		}
	}
	return nil
}

// only returns an error if a directory below root has a file other than files.
func only(root, dir string, files map[string][]byte) error {
	return filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if _, is := files[filepath.ToSlash(name)]; err == nil && !is {
			err = fmt.Errorf("%s has no source: delete it", path)
		}
		return err
	})
}
