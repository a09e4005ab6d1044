package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
)

// fingerprints are hashes of the content of files and directories by name; the hash of an unreadable file is zero.
// Names and modification times are not enough: in a ConfigMap all names are symbolic links, whose targets change.
type fingerprints map[string][sha256.Size]byte

// read reads a file and stores its fingerprint.
func (p fingerprints) read(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		p[name] = [sha256.Size]byte{}
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, wrongFile(name, "%s: cannot be read: %w", name, err)
	}
	p[name] = sha256.Sum256(data)
	return data, nil
}

// fileError is a problem with a file; its text contains the file's name.
type fileError struct {
	name string
	error
}

func (e fileError) Unwrap() error { return e.error }

func wrongFile(name, format string, args ...any) error {
	return fileError{name, fmt.Errorf(format, args...)}
}

// directory is the suffix of names whose fingerprint is that of a directory's contents.
const directory = "/"

// list returns the manifests in a directory, and stores a fingerprint of their names.
func (p fingerprints) list(path string) ([]string, error) {
	path = strings.TrimSuffix(path, directory)
	names, err := manifestsIn(path)
	p[path+directory] = sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return names, err
}

// recheck returns the current fingerprints of the same files.
func (p fingerprints) recheck() fingerprints {
	now := fingerprints{}
	for name := range p {
		if strings.HasSuffix(name, directory) {
			_, _ = now.list(name)
		} else {
			_, _ = now.read(name)
		}
	}
	return now
}

func (p fingerprints) equal(other fingerprints) bool { return maps.Equal(p, other) }

// agree reports whether some files are equal in both; "" is no file.
func (p fingerprints) agree(other fingerprints, names ...string) bool {
	for _, name := range names {
		if name != "" && p[name] != other[name] {
			return false
		}
	}
	return true
}
