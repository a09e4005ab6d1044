package notice_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/notice"
)

// hostile holds texts of callers, and the text that people see.
var hostile = map[string]struct{ text, seen string }{ //nolint:gochecknoglobals // a table of two tests
	"html":          {`<img src=x onerror=alert(1)><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`},
	"attribute":     {`" onmouseover="alert(1)`, `" onmouseover="alert(1)`},
	"mention":       {"<!channel> <!here> <@U123> @channel @everyone", "<!channel> <!here> <@U123> @channel"},
	"Slack link":    {"<https://evil.example|Approve>", "<https://evil.example|Approve>"},
	"Markdown":      {"[Approve](https://evil.example) **bold** ~~x~~ # h", "[Approve](https://evil.example) **bold**"},
	"entities":      {"&lt;!channel&gt; &#60;b&#62;", "&lt;!channel&gt; &#60;b&#62;"},
	"code":          {"```\n*out*", "```"},
	"backquote":     {"`*out*`", "*out*"},
	"Teams mention": {"<at>everyone</at>", "<at>everyone</at>"},
	"Teams date":    {"{{{DATE(2017-02-14T06:08:39Z)}}", "DATE(2017-02-14T06:08:39Z)"},
	"template":      {"${$root.secret} @{triggerBody()}", "${$root.secret} @{triggerBody()}"},
	"header":        {"ann\r\nBcc: evil@evil.example\r\n\r\nbody", `ann\u{d}\nBcc: evil@evil.example`},
	"bare feeds":    {"ann\nBcc: evil@evil.example", `ann\nBcc: evil@evil.example`},
	"encoded word":  {"=?utf-8?Q?=0D=0ABcc:_evil=E2=80=AE?=", "=?utf-8?Q?=0D=0ABcc:_evil=E2=80=AE?="},
	"SMTP":          {"x\r\n.\r\nMAIL FROM:<evil@evil.example>", `x\u{d}\n.\u{d}\nMAIL FROM:`},
	"bidi":          {"exe.\u202egnp\u202c \u2066x\u2069 \u061c", `exe.\u{202e}gnp\u{202c} \u{2066}x\u{2069} \u{61c}`},
	"invisible": {"a\u200bb\u200dc\ufeffd\u00ade\U000e0041\u3164f",
		`a\u{200b}b\u{200d}c\u{feff}d\u{ad}e\u{e0041}\u{3164}f`},
	"control":         {"a\x00b\x1b[2Jc\x7f\u0085\u2028", `a\u{0}b\u{1b}[2Jc\u{7f}\u{85}\u{2028}`},
	"bytes":           {"a\xff\xfe\xc0", `a\xff\xfe\xc0`},
	"marks":           {"a" + strings.Repeat("\u0335", 40), `\u{335}\u{335}`},
	"selectors":       {"a\ufe0f\U000e0101", `a\u{fe0f}\u{e0101}`},
	"long":            {strings.Repeat("<&>", 5000), "<&><&>"},
	"long, of runes":  {strings.Repeat("\U0001f600", 5000), "\U0001f600\U0001f600"},
	"long, invisible": {strings.Repeat("\u202e", 5000), `\u{202e}\u{202e}`},
	"blank":           {"   ", ""},
	"nothing":         {"", ""},
}

const link = "https://gate.example/inbox#/acme/apr_1"

// of returns the notice of an approval with the text in every field that a caller can set.
func of(text string) notice.Notice {
	a := approvals.Approval{ID: "apr_1", Description: text, Level: text, Why: text, Preview: text,
		State: approvals.Pending, Expires: time.Unix(1_700_000_000, 0), By: text, Comment: text, Link: link}
	a.Tenant, a.User, a.Agent, a.Capability, a.Tool, a.Session = text, text, text, text, text, text
	return notice.New(approvals.EventCreated, &a)
}

// envelope returns the envelope of a message to two people.
func envelope() *notice.Envelope {
	return &notice.Envelope{From: mail.Address{Name: "Gateway, \"one\"", Address: "gate@example.com"},
		To: []mail.Address{{Address: "ann@example.com"}, {Name: "Bob Ärger", Address: "bob@example.com"}},
		ID: "msg_1", Approval: "apr_1", First: true, Date: time.Unix(1_700_000_000, 0)}
}

// TestHostileTexts: in every format, no text of a caller becomes markup, a mention, a link, a header or a line of its
// own, and each text is legible and bounded.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := of(test.text)
			body, err := notice.Slack(&n)
			check(t, "Slack", err, strings.ReplaceAll(test.seen, "`", "\u02cb"), checkSlack(t, body))
			body, err = notice.Teams(&n)
			check(t, "Teams", err, test.seen, checkTeams(t, body))
			body, err = notice.Mail(&n, envelope())
			for _, seen := range checkMail(t, body) {
				check(t, "mail", err, test.seen, seen)
			}
		})
	}
}

// check checks that the visible text contains the wanted one.
func check(t *testing.T, format string, err error, want string, seen string) {
	t.Helper()
	if err != nil || !strings.Contains(seen, want) {
		t.Errorf("%s: %v; want %q in\n%s", format, err, want, seen)
	}
	for _, r := range seen {
		if r != '\n' && r != '\r' && r != ' ' && !unicode.IsPrint(r) {
			t.Errorf("%s: %U in %q", format, r, seen)
			return
		}
	}
}

// slackTextObject is a text object of Block Kit.
type slackTextObject struct {
	Type, Text string
	Verbatim   bool
	Emoji      *bool
}

// checkSlack checks the rules of Block Kit, whose schema is not published, and returns the visible text.
func checkSlack(t *testing.T, body []byte) string {
	t.Helper()
	var m struct {
		Text, Parse string
		LinkNames   bool `json:"link_names"`
		UnfurlLinks bool `json:"unfurl_links"`
		UnfurlMedia bool `json:"unfurl_media"`
		Blocks      []struct {
			Type     string
			Text     *slackTextObject
			Fields   []slackTextObject
			Elements []struct {
				Type, URL, Style string
				ActionID         string `json:"action_id"`
				Text             slackTextObject
			}
		}
	}
	strict(t, body, &m)
	var seen []string
	text := func(o slackTextObject, kind string, most int) {
		if n := len([]rune(o.Text)); o.Type != kind || n == 0 || n > most || (kind == "mrkdwn") != o.Verbatim {
			t.Errorf("Slack: a text of %d characters: %+v", n, o)
		}
		seen = append(seen, slackSeen(t, o.Text))
	}
	if m.Parse != "none" || m.LinkNames || m.UnfurlLinks || m.UnfurlMedia || len(m.Blocks) == 0 || len(m.Blocks) > 50 {
		t.Errorf("Slack: %+v", m)
	}
	slackSeen(t, m.Text)
	links := 0
	for _, b := range m.Blocks {
		switch b.Type {
		case "header":
			text(*b.Text, "plain_text", 150)
		case "section":
			if b.Text != nil {
				text(*b.Text, "mrkdwn", 3000)
			}
			if len(b.Fields) > 10 || b.Text == nil && len(b.Fields) == 0 {
				t.Errorf("Slack: a section of %d fields", len(b.Fields))
			}
			for _, f := range b.Fields {
				text(f, "mrkdwn", 2000)
			}
		case "actions":
			for _, e := range b.Elements {
				links++
				text(e.Text, "plain_text", 75)
				if e.Type != "button" || e.URL != link || e.ActionID == "" || e.Style != "primary" {
					t.Errorf("Slack: %+v", e)
				}
			}
		default:
			t.Errorf("Slack: a block %s", b.Type)
		}
	}
	if links != 1 {
		t.Errorf("Slack: %d links", links)
	}
	return strings.Join(seen, "\n")
}

var slackEntity = regexp.MustCompile(`&(amp|lt|gt);`)

// slackSeen returns the text that Slack shows. A code block must end where the gateway ends it.
func slackSeen(t *testing.T, text string) string {
	t.Helper()
	if strings.ContainsAny(slackEntity.ReplaceAllString(text, ""), "<>&") {
		t.Errorf("Slack: not escaped: %s", text)
	}
	if quotes := strings.Count(text, "`"); quotes != 0 && quotes != 2 && quotes != 6 {
		t.Errorf("Slack: code ends early: %s", text)
	}
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}

// checkTeams checks the card against the rules of Adaptive Cards 1.5 (adaptivecards.io/schemas/adaptive-card.json) for
// the elements that it may contain, and returns the visible text.
func checkTeams(t *testing.T, body []byte) string {
	t.Helper()
	if len(body) > 28<<10 {
		t.Errorf("Teams: %d bytes", len(body))
	}
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			ContentURL  any `json:"contentUrl"`
			Content     struct {
				Schema        string `json:"$schema"`
				Type, Version string
				FallbackText  string
				MSTeams       struct{ Width string }
				Actions       []struct{ Type, Title, URL string }
				Body          []struct {
					Type, Spacing string
					Inlines       []struct{ Type, Text, Size, Weight, FontType string }
				}
			}
		}
	}
	strict(t, body, &m)
	if m.Type != "message" || len(m.Attachments) != 1 || m.Attachments[0].ContentURL != nil ||
		m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		t.Fatalf("Teams: %s; m %+v", body, m)
	}
	card := m.Attachments[0].Content
	if card.Schema != "http://adaptivecards.io/schemas/adaptive-card.json" || card.Type != "AdaptiveCard" ||
		card.Version != "1.5" || len(card.Body) == 0 || card.MSTeams.Width != "Full" {
		t.Errorf("Teams: %s; card %+v", body, card)
	}
	if len(card.Actions) != 1 || card.Actions[0].Type != "Action.OpenUrl" || card.Actions[0].URL != link ||
		card.Actions[0].Title == "" {
		t.Errorf("Teams: actions %+v", card.Actions)
	}
	if strings.Contains(string(body), "{{") {
		t.Errorf("Teams: a function: %s", body)
	}
	var seen []string
	for _, e := range card.Body {
		if e.Type != "RichTextBlock" || len(e.Inlines) == 0 || !slices.Contains([]string{"", "Small"}, e.Spacing) {
			t.Errorf("Teams: %+v", e)
		}
		for _, run := range e.Inlines {
			if run.Type != "TextRun" || run.Text == "" || !slices.Contains([]string{"", "Bolder"}, run.Weight) ||
				!slices.Contains([]string{"", "Large"}, run.Size) ||
				!slices.Contains([]string{"", "Monospace"}, run.FontType) {
				t.Errorf("Teams: %+v", run)
			}
			seen = append(seen, run.Text)
		}
	}
	return strings.Join(seen, "\n")
}

// strict decodes JSON without unknown fields.
func strict(t *testing.T, body []byte, to any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}

// headers lists the header fields of a message, in order.
const headers = "Auto-Submitted,Content-Type,Date,From,Message-Id,Mime-Version,Subject,To,X-Auto-Response-Suppress"

// checkMail reads a message as a mail program does, and returns the texts of its parts.
func checkMail(t *testing.T, body []byte) []string {
	t.Helper()
	for line := range bytes.SplitSeq(body, []byte("\r\n")) {
		if len(line) > 78 && bytes.Contains(line, []byte(": ")) && !bytes.HasPrefix(line, []byte("Content-Type")) ||
			len(line) > 200 || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
	m, err := mail.ReadMessage(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var names []string
	for name, values := range m.Header {
		if names = append(names, name); len(values) != 1 {
			t.Errorf("%s: %q", name, values)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, ","); got != headers {
		t.Errorf("header %s", got)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "Approval needed: ") || len([]rune(subject)) > 250 {
		t.Errorf("subject %q, %v", subject, err)
	}
	check(t, "subject", nil, "", subject)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s: %v", kind, err)
	}
	var seen []string
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			text = []byte(checkHTML(t, text))
		}
		seen = append(seen, string(text))
	}
	if len(seen) != 2 {
		t.Fatalf("%d parts", len(seen))
	}
	return seen
}

// checkHTML permits only the elements and attributes that the gateway writes, and returns the text.
func checkHTML(t *testing.T, page []byte) string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	links := 0
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.TextNode:
			seen.WriteString(n.Data)
		case n.Type == html.ElementNode && !strings.Contains(
			" html head meta title body h2 table tbody tr th td p pre a small ", " "+n.Data+" "):
			t.Errorf("an element %s", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "href" && n.Data == "a" && a.Val == link:
				links++
			case !strings.Contains(" lang charset style cellpadding align valign ", " "+a.Key+" "):
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	if links != 1 {
		t.Errorf("%d links", links)
	}
	return seen.String()
}

// TestWordsOfEvents: each kind of event has a title, an answer has its author, and a late question says so.
func TestWordsOfEvents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind  approvals.Kind
		state approvals.State
		title string
	}{
		{approvals.EventCreated, approvals.Pending, "Approval needed"},
		{approvals.EventCreated, approvals.Denied, "Approval, already denied"},
		{approvals.EventApproved, approvals.Approved, "Approved"},
		{approvals.EventDenied, approvals.Denied, "Denied"},
		{approvals.EventUsed, approvals.Used, "The approved call runs"},
		{approvals.EventReleased, approvals.Approved, "The approved call did not start"},
		{approvals.EventExpired, approvals.Expired, "Approval expired"},
		{approvals.EventAnswered, approvals.Pending, "Approved in part: more people have to approve"},
		{approvals.EventEscalated, approvals.Pending, "Approval escalated: further groups may answer"},
	} {
		a := approvals.Approval{ID: "apr_1", State: test.state, By: "eve", Terms: &approvals.Terms{Answers: 3},
			Answers: []approvals.GivenAnswer{{By: "bob"}, {By: "kim\u202e"}}}
		n := notice.New(test.kind, &a)
		soFar := notice.Field{Name: "Approved so far", Value: `2 of 3: bob, kim\u{202e}`}
		if slices.Contains(n.Fields, soFar) != (test.state == approvals.Pending) {
			t.Errorf("%s: %+v", test.kind, n)
		}
		if n.Title != test.title || !slices.Contains(n.Fields, notice.Field{Name: "Answered by", Value: "eve"}) {
			t.Errorf("%s: %+v", test.kind, n)
		}
		for format, body := range map[string]func() ([]byte, error){ // without a link there is no button
			"Slack": func() ([]byte, error) { return notice.Slack(&n) },
			"Teams": func() ([]byte, error) { return notice.Teams(&n) },
			"mail":  func() ([]byte, error) { return notice.Mail(&n, envelope()) },
		} {
			if text, err := body(); err != nil || strings.Contains(string(text), n.Button) ||
				!strings.Contains(string(text), "eve") {
				t.Errorf("%s: %v\n%s", format, err, text)
			}
		}
	}
}
