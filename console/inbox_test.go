package console_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

const (
	// mostBusy bounds the CPU time until the Inbox with 5,000 approvals takes input, and mostIdle its share afterwards.
	mostBusy = 1.0
	mostIdle = 0.02
	// mostClicks bounds the clicks of a task of an approver.
	mostClicks = 3
)

func inbox(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Thousands struct {
			Busy, Idle                      float64
			Title, Rest, Search, Hash, Kept string
			Lists, Nodes                    int
		}
		One struct {
			Difference    string
			Approve, Deny int
			Answers       [][3]string
		}
		Alike struct {
			Group, Shown    string
			Cards, Clicks   int
			Found           []string
			Before, Open    bool
			Failed, Answers []string
		}
		Chosen chosen
		Shown  struct{ Text, Before, After string }
	}
	b.Run(t, "inbox", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	all := saw.Thousands
	t.Logf("5,000 approvals: %.2f s of CPU time until input, then %.4f of a core; %d elements, %d requests", all.Busy,
		all.Idle, all.Nodes, all.Lists)
	if all.Busy > mostBusy || all.Idle > mostIdle || all.Nodes > mostNodes || all.Lists > 3 ||
		all.Title != "(5,000) Inbox · capgate" || !strings.Contains(all.Rest, "and 4,900 more wait") ||
		all.Search != "tool_31" || all.Hash != "#/inbox?q=tool_31" || all.Kept != "tool_31" {
		t.Errorf("%+v", all)
	}
	one := saw.One
	if one.Approve > mostClicks || one.Deny > mostClicks || len(one.Answers) != 2 ||
		one.Answers[0] != [3]string{"apr_7", "approve", ""} ||
		one.Answers[1] != [3]string{"apr_9", "deny", "not today"} ||
		!strings.HasPrefix(one.Difference, "1 value differs from the last approved call, approved 10 min ago by eve") {
		t.Errorf("%+v", one)
	}
	many := saw.Alike
	if many.Clicks > mostClicks || many.Cards != 1 || !many.Before || !many.Open || len(many.Answers) != 10 ||
		len(slices.Compact(many.Answers)) != 10 || len(many.Failed) != 1 || len(many.Found) != 0 {
		t.Errorf("%+v", many)
	}
	for _, want := range []string{"apr_5", "the approver is the user of the call", "SELF_APPROVAL"} {
		if !strings.Contains(strings.Join(many.Failed, ""), want) {
			t.Errorf("no %s in %s", want, many.Failed)
		}
	}
	for _, want := range []string{"person-0@example.com", "person-9@example.com", "hello, all of it"} {
		if !strings.Contains(many.Shown, want) {
			t.Errorf("%s is not shown: %s", want, many.Shown)
		}
	}
	if !strings.Contains(many.Group, "They differ in to.") {
		t.Errorf("%s", many.Group)
	}
	saw.Chosen.check(t)
	if s := saw.Shown; !strings.Contains(s.Text, "the deepest") || s.Before != "Approve 1" || s.After != "Approve 1" {
		t.Errorf("approved without being shown: %+v", s)
	}
}

// chosen has what the dialog shows when approvals that are not alike are answered together.
type chosen struct {
	Found, Answers            []string
	Count, Title, Shown, Left string
	Covered, Before           bool
	Clicks, Keys, Foreign     int
}

// check fails unless all calls were shown before they were approved, each by itself, and none that could not be.
func (c *chosen) check(t *testing.T) {
	t.Helper()
	slices.Sort(c.Answers)
	want := []string{"approve apr_0", "approve apr_1", "approve apr_4", "approve apr_5", "deny apr_6", "deny apr_7"}
	if !slices.Equal(c.Answers, want) || c.Clicks > 4 || c.Keys > 6 || c.Foreign != 0 || !c.Before || c.Covered ||
		len(c.Found) != 0 || c.Title != "Answer 5 calls" || !strings.HasPrefix(c.Count, "5 chosen") ||
		!strings.HasPrefix(c.Left, "1 chosen") {
		t.Errorf("%+v", c)
	}
	for _, value := range []string{"value 0", "value 1", "value 2", "value 4", "value 5"} {
		if !strings.Contains(c.Shown, value) {
			t.Errorf("%s is not shown: %s", value, c.Shown)
		}
	}
}

func pastApprovals(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Found                                          []string
		Numbers, People, Rows, Asked, Hash, Kept, File string
		Statistics, Denied                             int
		Days                                           float64
		Empty                                          []int // buttons of searches that go on
	}
	b.Run(t, "history", map[string]any{"origins": []string{startFake(t, nil)}, "images": *images}, &saw)
	if len(saw.Found) != 0 || saw.Statistics > 2 || saw.Denied > 1 || saw.Asked != "denied" || saw.Kept != "denied" ||
		saw.Hash != "#/inbox/history?outcome=denied&when=7d" || saw.Days < 6.9 || saw.Days > 7.1 ||
		saw.File != "approvals.csv" || !slices.Equal(saw.Empty, []int{1, 1}) {
		t.Errorf("%+v", saw)
	}
	for text, in := range map[string]string{"Denied 24%": saw.Numbers, "Median time to answer 1 min 24 s": saw.Numbers,
		"90% answered within 6 min 51 s": saw.Numbers, "eve@example.com": saw.People, "Not before Monday": saw.Rows} {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in %q", text, in)
		}
	}
}

func background(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	var saw struct {
		Hidden struct {
			Asked, AskedByClick int
			Title               string
			Notices             [][]string
		}
		Sheet struct {
			Before, After []int
			Text, Lost    string
		}
		Dead struct {
			States  []string
			Silence float64 // ms before the second state
		}
	}
	b.Run(t, "background", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
	h := saw.Hidden
	if notice := strings.Join(slices.Concat(h.Notices...), "; "); h.Asked != 0 || h.AskedByClick != 1 ||
		h.Title != "(1) Inbox · capgate" ||
		notice != "A call waits for your approval; Send mail, asked by bot, of the tenant acme" {
		t.Errorf("%+v", h)
	}
	s := saw.Sheet
	if !slices.Equal(s.Before, s.After) || !strings.Contains(s.Text, "denied by Zoe") ||
		strings.Contains(s.Lost, "not counted") {
		t.Errorf("%+v", s)
	}
	if saw.Dead.Silence < 11_000 || !slices.Equal(saw.Dead.States, []string{"Live", "Reconnecting", "Live"}) {
		t.Errorf("%+v", saw.Dead)
	}
}
