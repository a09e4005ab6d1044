package initfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Write writes files below a directory, which it creates. It overwrites nothing: if one of the files exists or cannot
// be written, an error is returned, and none of them is left.
func Write(dir string, files []File) (err error) {
	var made []string
	defer func() {
		if err == nil {
			return
		}
		for _, path := range slices.Backward(made) {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists; name another directory, or remove it: %w", path, fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if made, err = makeDir(filepath.Dir(path), made); err != nil {
			return err
		}
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		made = append(made, path)
		_, err = file.WriteString(f.Text)
		err = errors.Join(err, file.Chmod(f.Mode)) // whatever the umask
		if f.Owner != 0 {
			err = errors.Join(err, file.Chown(f.Owner, f.Owner))
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeDir creates a directory with its parents, and adds those that did not exist to made.
func makeDir(dir string, made []string) ([]string, error) {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return made, nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		var err error
		if made, err = makeDir(parent, made); err != nil {
			return made, err
		}
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		made = append(made, dir)
		// Whatever the umask, containers read some files. Secrets have modes of their own.
		err = os.Chmod(dir, 0o755) //nolint:gosec // see above
	}
	return made, err
}
