package operator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// StartPrefix begins the token that a process prints at its start, so that people and secret scanners recognize one.
const StartPrefix = "cgstart_"

// SessionPrefix begins the credential of a program that a person has authorized.
const SessionPrefix = "cgsession_"

// NewStartToken returns a token of 256 bits.
func NewStartToken() string { return StartPrefix + rand.Text() + rand.Text() }

// maxStartToken bounds the content of a file with a token, in bytes.
const maxStartToken = 256

// startTokenPath returns the file with the start token of the process whose admin API has an address, host:port, on
// this machine.
func startTokenPath(runtime, admin string) (string, error) {
	host, port, err := net.SplitHostPort(admin)
	if err != nil {
		return "", fmt.Errorf("the address %q: %w", admin, err)
	}
	if _, err = strconv.ParseUint(port, 10, 16); err != nil || strings.ContainsAny(host, `/\`) {
		return "", fmt.Errorf("the address %q is not host:port", admin)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	name := "admin-" + strings.NewReplacer(":", "_", "%", "_").Replace(strings.ToLower(host)) + "-" + port
	return filepath.Join(startDir(runtime), name), nil
}

// startDir returns a directory that only the user can access: in the user's runtime directory, or in that of temporary
// files.
func startDir(runtime string) string {
	if filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "capgate")
	}
	return filepath.Join(os.TempDir(), "capgate-"+strconv.Itoa(os.Getuid()))
}

// WriteStartToken stores the token of a process for programs of the same user. The result removes the file, if it
// still has that token.
func WriteStartToken(runtime, admin, token string) (remove func(), err error) {
	file, err := startTokenPath(runtime, admin)
	if err != nil {
		return nil, err
	}
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	if err = ownedAlone(filepath.Dir(file)); err != nil {
		return nil, err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".admin-*") // 0600
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(next, token+"\n")
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return nil, err
	}
	return func() {
		if now, err := ReadStartToken(runtime, admin); err == nil && now == token {
			_ = os.Remove(file)
		}
	}, nil
}

// ReadStartToken returns the token of the process whose admin API has an address. The error is fs.ErrNotExist if there
// is none.
func ReadStartToken(runtime, admin string) (string, error) {
	file, err := startTokenPath(runtime, admin)
	if err != nil {
		return "", err
	}
	if err = ownedAlone(filepath.Dir(file)); err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = alone(file, info, 0o077)
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxStartToken))
	token := strings.TrimSpace(string(text))
	if err == nil && !strings.HasPrefix(token, StartPrefix) {
		err = fmt.Errorf("%s has no start token", file)
	}
	return token, err
}

// ownedAlone checks that a directory belongs to this user, and that no other user has access.
func ownedAlone(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	return alone(dir, info, 0o077)
}

func alone(name string, info fs.FileInfo, others fs.FileMode) error {
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(of.Uid) != os.Getuid() || info.Mode().Perm()&others != 0 {
		return fmt.Errorf("%s must belong to this user, and be accessible to no other", name)
	}
	return nil
}
