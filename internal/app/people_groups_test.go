package app

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/policy/approvals"
)

// TestGroupsThatRulesName: if a person is in more groups than a session can hold, the session keeps those that roles
// and approval rules name.
func TestGroupsThatRulesName(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Operators.People = operator.People{{Issuer: "corp", Group: "ops", Roles: operator.View}}
	cfg.Approvals.Rules = []approvals.AnswerRule{{Groups: []string{"finance"}},
		{Groups: []string{"legal"}, Escalate: approvals.Escalation{Groups: []string{"board"}}}}
	o := persons{sessions: session.New(nil, session.Options{})}
	o.set(&settings.Settings{Config: cfg})
	named := []string{"finance", "legal", "board", "ops"}
	var groups []string
	for i := range 500 {
		groups = append(groups, fmt.Sprintf("other-%d", i))
	}
	kept := session.KeepGroups(append(groups, named...), o.namesGroup)
	for _, group := range named {
		if !slices.Contains(kept, group) {
			t.Errorf("%s is not kept", group)
		}
	}
	if len(kept) == len(groups)+len(named) {
		t.Error("all groups fit")
	}
	cfg.Approvals.Rules = nil // a reload
	o.set(&settings.Settings{Config: cfg})
	if kept = session.KeepGroups(append(groups, named...), o.namesGroup); slices.Contains(kept, "board") {
		t.Error("board is kept without a rule")
	}
}
