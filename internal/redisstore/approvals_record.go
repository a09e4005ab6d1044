package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// bindingFields are the fields of a binding. An older approval has no settings.
func bindingFields(w *approvals.Binding) []field {
	return []field{
		{"user", &w.User}, {"agent", &w.Agent}, {"capability", &w.Capability}, {"tool", &w.Tool},
		{"schema", w.Schema[:]}, {"arguments", w.ArgsHash[:]}, {"session", &w.Session}, {"thread", &w.Thread},
		{approvals.SettingsField, optional{w.Settings[:]}},
	}
}

// approvalFields are the fields of a new approval, which never change.
func approvalFields(r *approvals.Record) []field {
	return append(bindingFields(&r.Binding), []field{
		{"id", &r.ID}, {"description", &r.Description}, {"request", &r.RequestID}, {"trace", &r.Trace},
		{"change", &r.Change}, {"level", &r.Level}, {"why", &r.Why}, {"preview", &r.Preview}, {"value", &r.Value},
		{"sealed", &r.Sealed}, {"whole", optional{&r.Whole}},
	}...)
}

// answerFields are the fields of an approval that its answer sets.
func answerFields(by, comment *string, remember *approvals.Remember) []field {
	return []field{{"by", by}, {"comment", comment}, {"remember", word(remember, approvals.ParseRemember)}}
}

// stateFields are the fields of an approval that change.
func stateFields(r *approvals.Record) []field {
	return append(answerFields(&r.By, &r.Comment, &r.Remember), []field{
		{"state", word(&r.State, approvals.ParseState)}, {"created", &r.Created}, {"expires", &r.Expires},
		{"answered", optional{&r.Answered}}, {"changed", optional{&r.Changed}}, {"seal", nil}, {"answer_seal", nil},
		{"answer", nil}, {"answers", nil}, {"token", nil}, {"released", nil},
	}...)
}

// record parses the fields of an approval. A malformed one is absent.
func (a *ApprovalStore) record(tenant string, f map[string]string) (approvals.Record, error) {
	if !a.signed(tenant, f["id"], f) {
		return approvals.Record{}, approvals.ErrUnknown
	}
	return a.recordOf(tenant, f)
}

// recordOf is record for fields whose signature is verified.
func (a *ApprovalStore) recordOf(tenant string, f map[string]string) (r approvals.Record, err error) {
	r.Tenant = tenant
	if !decodeFields(append(approvalFields(&r), stateFields(&r)...), f) || r.ID == "" {
		a.malformed(a.key("{TENANT:approvals}", tenant))
		return approvals.Record{}, approvals.ErrUnknown
	}
	a.addGiven(&r, f)
	return r, nil
}

func formatMillis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func parseMillis(t *time.Time, text string) bool {
	ms, err := strconv.ParseInt(text, 10, 64)
	*t = time.UnixMilli(ms)
	return err == nil && ms >= 0
}

const (
	// scanEntries is the number of index entries that one script visits.
	scanEntries = 200
	// maxScans bounds the scripts for one page, which may then be short.
	maxScans = 20
)

// List implements approvals.ReviewStore.
func (a *ApprovalStore) List(
	ctx context.Context, tenant string, f approvals.Filter, after string, most int,
) (page []approvals.Record, next string, err error) {
	state := ""
	if f.State != 0 {
		state = f.State.String()
	}
	var wanted []any
	for _, w := range [][2]string{{"user", f.User}, {"agent", f.Agent}, {"capability", f.Capability},
		{"tool", f.Tool}} {
		if w[1] != "" {
			wanted = append(wanted, w[0], w[1])
		}
	}
	for range maxScans {
		got := a.exec(ctx, listScript, tenant, append([]any{after, most - len(page), scanEntries, f.Order.String(),
			state, lower(f.Text)}, wanted...)...)
		after = got.text()
		for list := got.list(); list.more(); {
			if r, err := a.record(tenant, list.fields()); err == nil && (f.Sees == nil || f.Sees(r.Capability)) {
				page = append(page, r)
			}
		}
		if err := got.end(); err != nil {
			return nil, "", err
		}
		if after == "" || len(page) >= most {
			break
		}
	}
	return page, after, nil
}

// lower replaces the letters A to Z, as string.lower of Lua does.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// Events implements approvals.ReviewStore.
func (a *ApprovalStore) Events(
	ctx context.Context, tenant, after string, most int,
) (events []approvals.RecordEvent, last string, err error) {
	r := a.exec(ctx, eventsScript, tenant, after, most)
	last = r.text()
	if r.int() == 1 {
		events = append(events, approvals.RecordEvent{ID: after, Kind: approvals.EventsLost})
	}
	for list := r.list(); list.more(); {
		e := list.list()
		event := approvals.RecordEvent{ID: e.text(), Kind: approvals.Kind(e.text())}
		id := e.text()
		if f := e.fields(); len(f) > 0 {
			event.Record, _ = a.record(tenant, f)
		}
		if event.Record.ID == "" {
			event.Record.Tenant, event.Record.ID = tenant, id
		}
		events = append(events, event)
	}
	return events, last, r.end()
}
