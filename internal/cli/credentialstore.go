package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxCredentials bounds the file, in bytes.
const maxCredentials = 1 << 20

// credentialStore is the file in which capgate login stores credentials. Only its owner can read it.
type credentialStore struct {
	Gateways map[string]storedCredential `json:"gateways"` // by the URL of the admin API
}

// storedCredential is the credential for one admin API.
type storedCredential struct {
	Credential string     `json:"credential"`
	Session    bool       `json:"session,omitempty"`     // it is a sign-in session, which logout ends
	ExpireTime *time.Time `json:"expire_time,omitempty"` // nil: unknown
	CAFile     string     `json:"ca_file,omitempty"`     // of --tls-ca at the login
}

// credentialsFile returns the file's name.
func credentialsFile() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "capgate", "credentials.json"), nil
}

// storeName returns the name of an admin API in the store. This machine's names are one.
func storeName(u *url.URL) string {
	host, port := u.Hostname(), u.Port()
	if host == "localhost" || host == "::1" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// storedFor returns what is stored for an admin API, or nothing.
func storedFor(u *url.URL) storedCredential {
	all, err := loadCredentials()
	if err != nil {
		return storedCredential{}
	}
	return all.Gateways[storeName(u)]
}

// loadCredentials reads the store. A file that others can read, or that is another user's, is an error.
func loadCredentials() (s credentialStore, err error) {
	name, err := credentialsFile()
	if err != nil { // no home, so nothing was stored
		return s, nil //nolint:nilerr // see above
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("%s cannot be read: %w", name, reasonOf(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(of.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return s, fmt.Errorf("%s has credentials, and must belong to you and be readable by no other user: chmod 600",
			name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCredentials))
	if err != nil {
		return s, fmt.Errorf("%s cannot be read: %w", name, reasonOf(err))
	}
	if json.Unmarshal(data, &s) != nil { // the error may quote a credential
		return s, fmt.Errorf("%s is not what capgate login writes; delete it and sign in again", name)
	}
	return s, nil
}

// changeCredentials changes the store under a lock. Readers see the old file or the new one.
func changeCredentials(change func(all map[string]storedCredential)) (name string, err error) {
	if name, err = credentialsFile(); err != nil {
		return "", err
	}
	dir := filepath.Dir(name)
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return name, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return name, err
	}
	defer lock.Close() // which unlocks it
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return name, err
	}
	s, err := loadCredentials()
	if err != nil {
		return name, err
	}
	if s.Gateways == nil {
		s.Gateways = map[string]storedCredential{}
	}
	change(s.Gateways)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return name, err
	}
	return name, replaceFile(name, append(data, '\n'), 0o600)
}

// replaceFile replaces a file atomically by one of a mode.
func replaceFile(name string, data []byte, mode fs.FileMode) error {
	next, err := os.CreateTemp(filepath.Dir(name), ".capgate-*") // 0600
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err = errors.Join(err, next.Chmod(mode), next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), name)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
