package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/capgate/capgate/internal/audit"
)

const auditHelp = `The files are read from the oldest to the newest. Two changes cannot be detected: the removal of the
last records, and a log that was rewritten as a whole. To detect them, compare the printed hash with
a copy stored elsewhere.`

// newAuditCommand returns the command capgate audit.
func newAuditCommand(std stdio) *cobra.Command {
	o := &output{stdio: std}
	verify := &cobra.Command{Use: "verify FILE...",
		Short: "verify the hash chain of audit logs, and report where it breaks", Long: auditHelp}
	o.addFlags(verify.Flags())
	completeOutput(verify)
	verify.RunE = func(_ *cobra.Command, files []string) error { return verifyFiles(files, o) }
	return parent("audit", "list changes, and verify audit logs", "", newChangesCommand(std), exits(verify,
		"0 the chain is intact; 1 it is broken; 2 wrong command line, or a file cannot be read."))
}

// auditFile is the result for one file as data.
type auditFile struct {
	File    string `json:"file"`
	Intact  bool   `json:"intact"`
	Line    int64  `json:"line,omitempty"` // where the chain breaks
	Why     string `json:"why,omitempty"`
	Records int64  `json:"records"` // of the intact part, as what follows
	First   int64  `json:"first,omitempty"`
	Last    int64  `json:"last,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Lost    int64  `json:"lost"`
	SHA256  string `json:"sha256,omitempty"` // of the last record
}

// verifyFiles prints one object for each file, up to the first that is broken.
func verifyFiles(files []string, o *output) error {
	var before *audit.Head
	for _, name := range files {
		s, err := verifyFile(name, before)
		of := auditFile{File: name, Records: s.Records, First: s.First, Last: s.Last, From: s.From, To: s.To,
			Lost: s.Lost}
		if s.Records > 0 {
			of.SHA256 = fmt.Sprint(s.Head)
		}
		var broken *audit.Broken
		switch {
		case errors.As(err, &broken):
			of.Line, of.Why = broken.Line, broken.Why
			if err := o.record(of, func(w io.Writer) {
				fmt.Fprintf(w, "%s:%d: %s\n", name, broken.Line, broken.Why)
				fmt.Fprintf(w, "%s: intact before that: %s\n", name, summaryOf(&s))
			}); err != nil {
				return err
			}
			return quiet(exitRefused)
		case err != nil:
			return usageError("%s cannot be read: %w", name, reasonOf(err))
		}
		of.Intact = true
		if err := o.record(of, func(w io.Writer) {
			fmt.Fprintf(w, "%s: whole: %s\n", name, summaryOf(&s))
		}); err != nil {
			return err
		}
		before = &s.Head
	}
	return nil
}

func verifyFile(name string, before *audit.Head) (audit.Summary, error) {
	f, err := os.Open(name)
	if err != nil {
		return audit.Summary{}, err
	}
	defer f.Close()
	return audit.Verify(f, before)
}

func summaryOf(s *audit.Summary) string {
	if s.Records == 0 {
		return "no records"
	}
	text := fmt.Sprintf("%s, %d to %d, %s to %s, sha256 of the last %s", count(int(s.Records), "record"), s.First,
		s.Last, s.From, s.To, s.Head)
	if s.Lost > 0 {
		text += fmt.Sprintf("; they report %s lost", count(int(s.Lost), "other record"))
	}
	return text
}
