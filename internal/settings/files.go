package settings

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/capgate/capgate/internal/lib/nearest"
)

// Files are hashes of the content of files and directories by name; the hash of an unreadable file is zero.
// Names and modification times are not enough: in a ConfigMap all names are symbolic links to changing targets.
type Files map[string][sha256.Size]byte

// Read reads a file and stores its fingerprint.
func (p Files) Read(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		p[name] = [sha256.Size]byte{}
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, wrongFile(name, "%s: cannot be read: %w%s", name, err, neighbour(name, err))
	}
	p[name] = sha256.Sum256(data)
	return data, nil
}

// neighbour returns the end of an error, for a file that is not there: one of a similar name in the same directory.
func neighbour(name string, err error) string {
	entries, unreadable := os.ReadDir(filepath.Dir(name))
	if !errors.Is(err, fs.ErrNotExist) || unreadable != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near := nearest.To(filepath.Base(name), names); near != "" {
		return `; did you mean "` + filepath.Join(filepath.Dir(name), near) + `"?`
	}
	return ""
}

// directory is the suffix of a name that stands for the contents of a directory.
const directory = "/"

// list returns the manifests in a directory, and stores a fingerprint of their names.
func (p Files) list(path string) ([]string, error) {
	path = strings.TrimSuffix(path, directory)
	names, err := manifestsIn(path)
	p[path+directory] = sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return names, err
}

// Recheck returns the current fingerprints of the same files.
func (p Files) Recheck() Files {
	now := Files{}
	for name := range p {
		if strings.HasSuffix(name, directory) {
			_, _ = now.list(name)
		} else {
			_, _ = now.Read(name)
		}
	}
	return now
}

// Equal reports whether both have the same files with the same content.
func (p Files) Equal(other Files) bool { return maps.Equal(p, other) }

// agree reports whether some files are equal in both; "" is no file.
func (p Files) agree(other Files, names ...string) bool {
	for _, name := range names {
		if name != "" && p[name] != other[name] {
			return false
		}
	}
	return true
}
