package notice

import (
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// Bounds of Block Kit (docs.slack.dev/reference/block-kit/blocks), in characters.
const (
	slackFields    = 10 // of a section
	slackText      = 2900
	slackFallback  = 500
	slackBlockEdge = "```"
)

type (
	slackMessage struct {
		Text        string       `json:"text"` // of notifications, and of clients without blocks
		Blocks      []slackBlock `json:"blocks"`
		UnfurlLinks bool         `json:"unfurl_links"`
		UnfurlMedia bool         `json:"unfurl_media"`
		LinkNames   bool         `json:"link_names"` // @name becomes no mention
		Parse       string       `json:"parse"`
	}
	slackBlock struct {
		Type     string         `json:"type"`
		Text     *slackTextObj  `json:"text,omitempty"`
		Fields   []slackTextObj `json:"fields,omitempty"`
		Elements []slackButton  `json:"elements,omitempty"`
	}
	slackTextObj struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Verbatim *bool  `json:"verbatim,omitempty"` // of mrkdwn: URLs and names become no links
		Emoji    *bool  `json:"emoji,omitempty"`    // of plain_text
	}
	slackButton struct {
		Type     string       `json:"type"`
		Text     slackTextObj `json:"text"`
		URL      string       `json:"url"`
		ActionID string       `json:"action_id"`
		Style    string       `json:"style,omitempty"`
	}
)

// Slack returns the body of a request to an incoming webhook. The button is a link.
func Slack(n *Notice) ([]byte, error) {
	m := slackMessage{Text: n.Title + ": `" + fitted(n.What, slackFallback, slackCode) + "`", Parse: "none"}
	m.Blocks = append(m.Blocks, slackBlock{Type: "header", Text: slackPlain(n.Title)})
	for fields := n.Fields; len(fields) > 0; {
		one := slackBlock{Type: "section"}
		for len(fields) > 0 && len(one.Fields) < slackFields {
			one.Fields = append(one.Fields, *slackMarked("*" + fields[0].Name + "*\n`" +
				fitted(fields[0].Value, slackText/2, slackCode) + "`"))
			fields = fields[1:]
		}
		m.Blocks = append(m.Blocks, one)
	}
	if n.Arguments != "" {
		m.Blocks = append(m.Blocks, slackBlock{Type: "section", Text: slackMarked(slackBlockEdge + "\n" +
			fitted(n.Arguments, slackText, slackCode) + "\n" + slackBlockEdge)})
	}
	if n.Link != "" {
		m.Blocks = append(m.Blocks, slackBlock{Type: "actions", Elements: []slackButton{{Type: "button",
			Text: *slackPlain(n.Button), URL: n.Link, ActionID: "open", Style: "primary"}}})
	}
	return plainjson.Marshal(m)
}

func slackPlain(text string) *slackTextObj {
	return &slackTextObj{Type: "plain_text", Text: text, Emoji: new(bool)}
}

func slackMarked(text string) *slackTextObj {
	return &slackTextObj{Type: "mrkdwn", Text: text, Verbatim: new(true)}
}

// slackCode escapes a text for a code span or block: the characters that begin mentions, links and entities
// (docs.slack.dev, Formatting message text). A backquote, which would end the code, is written as a similar letter.
func slackCode(s string) string { return slackEscapes.Replace(s) }

var slackEscapes = strings.NewReplacer( //nolint:gochecknoglobals // a constant
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "\u02cb")
