package difftest

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// outcome is the outcome of an attempt.
type outcome struct {
	status string // of gRPC, or another result
	record *record
	runs   []run
}

// verify returns the difference between the call that ran and the authorized one. A rejection is never wrong.
func verify(a *attempt, o *outcome) error {
	if len(o.runs) > 1 {
		return fmt.Errorf("it ran %d times", len(o.runs))
	}
	if o.status == "0" && o.record == nil {
		return fmt.Errorf("it ended with OK and is not in the audit log: %v", o.runs)
	}
	if len(o.runs) == 0 {
		if ran := o.record != nil && o.status == "0" && runs(o.record.Method); ran {
			return fmt.Errorf("the audit log says that %s of %s ran, and no backend did", o.record.Method,
				o.record.Capability)
		}
		return nil
	}
	r := &o.runs[0]
	if r.Tool == "blocked" {
		return fmt.Errorf("a blocked tool ran: %v", r)
	}
	if o.record == nil {
		return fmt.Errorf("the call that ran is not in the audit log: %v", r)
	}
	return judgeRun(a, o.record, r)
}

func judgeRun(a *attempt, rec *record, r *run) error {
	kind := path.Base(r.Method)
	switch {
	case !r.from(rec.Capability):
		return fmt.Errorf("the call was recorded for %q, and %s has it: %v", rec.Capability, r.Backend, r)
	case rec.Method != kind && (kind != "Invoke" || rec.Method != "StreamInvoke"):
		return fmt.Errorf("%q was recorded, and %q ran: %v", rec.Method, kind, r)
	case invokes(kind) && rec.Decision != "allow":
		return fmt.Errorf("the decision was %q: %v", rec.Decision, r)
	case invokes(kind) && rec.Tool != recorded(r.Tool):
		return fmt.Errorf("the tool %q was recorded, and %q ran: %v", rec.Tool, r.Tool, r)
	case r.Capability != "" && r.Capability != rec.Capability:
		return fmt.Errorf("the capability %q was recorded, and %q was decoded: %v", rec.Capability, r.Capability, r)
	case invokes(kind) && !a.has("x-session-id") && r.Reserved != (r.Session == "mine"):
		return fmt.Errorf("a call of the session %q went to the backend of another: %v", r.Session, r)
	}
	for _, id := range r.Artifacts {
		if id != "" && !owned[id] {
			return fmt.Errorf("another tenant's artifact was reached: %v", r)
		}
	}
	if strings.HasSuffix(rec.Capability, "-"+doc) { // the doc fleet checks neither arguments nor configuration
		return nil
	}
	if r.Tool == "run" && r.Command != nil && *r.Command != "ls" {
		return fmt.Errorf("the schema forbids the command %q: %v", *r.Command, r)
	}
	for _, name := range r.Names {
		// where translation keeps the rest of it
		if name != "api_key" && !(name == "context" && a.path == invokePaths[legacy]) {
			return fmt.Errorf("the configuration must not name %q: %v", name, r)
		}
	}
	return nil
}

// owned returns the artifacts of the calling tenant.
var owned = map[string]bool{"ours": true}

func invokes(method string) bool { return method == "Invoke" || method == "StreamInvoke" }

// runs reports whether a backend reports a method of the audit log.
func runs(method string) bool {
	return invokes(method) || method == "UploadInputArtifact" || method == "DownloadOutputArtifact"
}

// recorded returns a text in the form of the audit log.
func recorded(word string) string {
	const most = 256
	if len(word) > most {
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(word[end]) {
			end--
		}
		word = word[:end]
	}
	return strings.ToValidUTF8(word, "\uFFFD")
}
