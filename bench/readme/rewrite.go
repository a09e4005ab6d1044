// Package readme writes measurements into a Markdown file.
package readme

import (
	"fmt"
	"os"
	"strings"
)

// Rewrite replaces the text between the file's two <!-- mark --> lines.
func Rewrite(file, mark, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	line := "<!-- " + mark + " -->\n"
	before, rest, ok1 := strings.Cut(string(old), line)
	_, after, ok2 := strings.Cut(rest, line)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s must have two lines %q", file, strings.TrimSpace(line))
	}
	return os.WriteFile(file, []byte(before+line+"\n"+strings.TrimSpace(text)+"\n\n"+line+after), 0o600)
}
