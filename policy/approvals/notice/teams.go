package notice

import (
	"strings"

	"github.com/capgate/capgate/internal/lib/plainjson"
)

// maxTeamsArguments bounds the arguments in bytes: Teams takes messages of up to 28 KB.
const maxTeamsArguments = 4 << 10

type (
	teamsMessage struct {
		Type        string            `json:"type"`
		Attachments []teamsAttachment `json:"attachments"`
	}
	teamsAttachment struct {
		ContentType string    `json:"contentType"`
		ContentURL  *string   `json:"contentUrl"` // null
		Content     teamsCard `json:"content"`
	}
	teamsCard struct {
		Schema  string         `json:"$schema"`
		Type    string         `json:"type"`
		Version string         `json:"version"`
		Text    string         `json:"fallbackText"`
		Body    []teamsElement `json:"body"`
		Actions []teamsAction  `json:"actions,omitempty"`
		Teams   teamsWidth     `json:"msteams"`
	}
	teamsWidth struct {
		Width string `json:"width"`
	}
	teamsElement struct {
		Type    string     `json:"type"`
		Spacing string     `json:"spacing,omitempty"`
		Inlines []teamsRun `json:"inlines"`
	}
	teamsRun struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Size   string `json:"size,omitempty"`
		Weight string `json:"weight,omitempty"`
		Font   string `json:"fontType,omitempty"`
	}
	teamsAction struct {
		Type  string `json:"type"`
		Title string `json:"title"`
		URL   string `json:"url"`
	}
)

// Teams returns the body of a request to a webhook of Workflows: an Adaptive Card 1.5. Its texts are TextRuns, which
// have no Markdown, unlike a TextBlock or a FactSet.
func Teams(n *Notice) ([]byte, error) {
	card := teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard",
		Version: "1.5", Text: n.Title + ": " + teamsText(n.What), Teams: teamsWidth{"Full"}}
	card.add("", teamsRun{Text: n.Title, Size: "Large", Weight: "Bolder"})
	for _, f := range n.Fields {
		card.add("Small", teamsRun{Text: f.Name + ": ", Weight: "Bolder"}, teamsRun{Text: teamsText(f.Value)})
	}
	if n.Arguments != "" {
		card.add("", teamsRun{Text: fitted(teamsText(n.Arguments), maxTeamsArguments, strings.Clone),
			Font: "Monospace"})
	}
	if n.Link != "" {
		card.Actions = []teamsAction{{Type: "Action.OpenUrl", Title: n.Button, URL: n.Link}}
	}
	return plainjson.Marshal(teamsMessage{Type: "message", Attachments: []teamsAttachment{{
		ContentType: "application/vnd.microsoft.card.adaptive", Content: card}}})
}

func (c *teamsCard) add(spacing string, runs ...teamsRun) {
	for i := range runs {
		runs[i].Type = "TextRun"
	}
	c.Body = append(c.Body, teamsElement{Type: "RichTextBlock", Spacing: spacing, Inlines: runs})
}

// teamsText keeps braces apart: {{DATE(…)}} would be replaced by a date.
func teamsText(s string) string {
	for strings.Contains(s, "{{") {
		s = strings.ReplaceAll(s, "{{", "{ {")
	}
	return s
}
