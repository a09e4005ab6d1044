package cli

import (
	"os"
	"strings"

	"github.com/capgate/capgate/internal/operator"
)

// runtimeDir is the directory for files of the user's processes (XDG Base Directory Specification); "": there is none.
func runtimeDir() string { return os.Getenv("XDG_RUNTIME_DIR") }

// startToken returns the token of the gateway that this user started on this machine.
func startToken(host string) (string, error) { return operator.ReadStartToken(runtimeDir(), host) }

// isOperatorToken reports whether a text has the form of a token of the admin API.
func isOperatorToken(text string) bool {
	return strings.HasPrefix(text, operator.StartPrefix) || strings.HasPrefix(text, operator.SessionPrefix)
}
