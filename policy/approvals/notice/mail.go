package notice

import (
	"bytes"
	"fmt"
	"html/template"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
)

// page is the HTML part. Its texts are escaped; it loads nothing.
var page = template.Must(template.New("mail").Parse( //nolint:gochecknoglobals // a constant
	`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title></head>
<body style="font-family:sans-serif">
<h2>{{.Title}}</h2>
<table cellpadding="4">{{range .Fields}}
<tr><th align="left" valign="top">{{.Name}}</th><td>{{.Value}}</td></tr>{{end}}
</table>{{if .Arguments}}
<p>Arguments:</p>
<pre style="background:#eee;color:#000;padding:8px;white-space:pre-wrap">{{.Arguments}}</pre>{{end}}{{if .Link}}
<p><a href="{{.Link}}">{{.Button}}</a></p>{{end}}
<p><small>The gateway sent this message. A reply has no effect.</small></p>
</body></html>
`))

// Mail returns a message (RFC 5322) with a plain and an HTML part, both quoted-printable.
func Mail(n *Notice, e *Envelope) ([]byte, error) {
	var html bytes.Buffer
	if err := page.Execute(&html, n); err != nil {
		return nil, fmt.Errorf("HTML of a notice: %w", err)
	}
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	for _, part := range []struct{ kind, text string }{{"text/plain", plain(n)}, {"text/html", html.String()}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{
			"Content-Type": {part.kind + "; charset=utf-8"}, "Content-Transfer-Encoding": {"quoted-printable"}})
		if err != nil {
			return nil, fmt.Errorf("message of a notice: %w", err)
		}
		text := quotedprintable.NewWriter(w) // a Buffer takes everything
		_, _ = text.Write([]byte(strings.ReplaceAll(part.text, "\n", "\r\n")))
		_ = text.Close()
	}
	_ = parts.Close()
	return append([]byte(e.header(n.Title+": "+n.What)+`Content-Type: multipart/alternative; boundary="`+
		parts.Boundary()+"\"\r\n\r\n"), body.Bytes()...), nil
}

// plain returns the part without markup.
func plain(n *Notice) string {
	var b strings.Builder
	b.WriteString(n.Title + "\n\n")
	for _, f := range n.Fields {
		fmt.Fprintf(&b, "%-12s %s\n", f.Name+":", f.Value)
	}
	if n.Arguments != "" {
		b.WriteString("\nArguments:\n  " + strings.ReplaceAll(n.Arguments, "\n", "\n  ") + "\n")
	}
	if n.Link != "" {
		b.WriteString("\n" + n.Button + ":\n" + n.Link + "\n")
	}
	b.WriteString("\nThe gateway sent this message. A reply has no effect.\n")
	return b.String()
}
