package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// readCredential reads the credential of a flag's file, or of CAPGATE_KEY without one. No error quotes it.
func readCredential(file, flag string) (string, error) {
	source, key := "CAPGATE_KEY", os.Getenv("CAPGATE_KEY")
	if file != "" {
		data, err := os.ReadFile(file) //nolint:gosec // the user's own file, named by the user
		if err != nil {
			return "", fmt.Errorf("%s: %s cannot be read: %w", flag, file, reasonOf(err))
		}
		source, key = flag+": "+file, strings.TrimSpace(string(data))
		if key == "" {
			return "", fmt.Errorf("%s is empty", source)
		}
	}
	if key != "" && !isCredential(key) {
		return "", fmt.Errorf("%s contains neither an API key, as capgate keys new prints it, nor a token", source)
	}
	return key, nil
}

// isCredential reports whether a text has the form of anything that authenticates.
func isCredential(text string) bool {
	_, _, isKey := tenant.ParseCredential(text)
	return isKey || token.LooksLikeToken(text) || strings.HasPrefix(text, operator.StartPrefix) ||
		strings.HasPrefix(text, operator.SessionPrefix)
}

// runtimeDir returns the directory for files of the user's processes (XDG Base Directory Specification); "": none.
func runtimeDir() string { return os.Getenv("XDG_RUNTIME_DIR") }

// startToken returns the token of the gateway that this user started on this machine.
func startToken(host string) (string, error) { return operator.ReadStartToken(runtimeDir(), host) }
