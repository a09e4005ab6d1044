package notice

import (
	"encoding/base64"
	"net/mail"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Envelope has the fields of a message's header that are not of its event.
type Envelope struct {
	From mail.Address
	To   []mail.Address
	ID   string // of the event, the same for each attempt
	// Approval is the approval's id: the thread of its messages.
	Approval string
	First    bool      // the message begins the thread
	Date     time.Time // of the event
}

// header returns the lines of a message's header but those of its content.
func (e *Envelope) header(subject string) string {
	var b strings.Builder
	line := func(name, value string) { b.WriteString(name + ": " + value + "\r\n") }
	line("From", e.From.String())
	to := make([]string, len(e.To))
	for i := range e.To {
		to[i] = e.To[i].String()
	}
	line("To", strings.Join(to, ",\r\n "))
	line("Subject", words(subject))
	line("Date", e.Date.UTC().Format(time.RFC1123Z))
	thread := e.messageID(e.Approval)
	if e.First {
		line("Message-ID", thread)
	} else {
		line("Message-ID", e.messageID(e.ID))
		line("In-Reply-To", thread)
		line("References", thread)
	}
	line("Auto-Submitted", "auto-generated") // RFC 3834: no program replies
	line("X-Auto-Response-Suppress", "All")  // the same for Exchange
	line("MIME-Version", "1.0")
	return b.String()
}

// messageID returns a message's id (RFC 5322 §3.6.4) at the domain of the sender.
func (e *Envelope) messageID(id string) string {
	_, domain, _ := strings.Cut(e.From.Address, "@")
	return "<" + atom(id) + "@" + atom(domain) + ">"
}

// atom leaves out the characters that a message's id cannot have.
func atom(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return -1
	}, s)
}

// maxWord is the number of bytes of a word of RFC 2047 before its encoding: a line with one has at most 76 characters.
const maxWord = 39

// words returns a text for a header. One that is not plain ASCII, or could be read as an encoded word, is encoded.
func words(s string) string {
	if isPlain(s) {
		return s
	}
	var all []string
	for len(s) > 0 {
		word := untrusted.Truncate(s, maxWord)
		all = append(all, "=?utf-8?B?"+base64.StdEncoding.EncodeToString([]byte(word))+"?=")
		s = s[len(word):]
	}
	return strings.Join(all, "\r\n ")
}

// isPlain reports whether a text is the same in a header, on one line.
func isPlain(s string) bool {
	return len(s) <= 66 && !strings.Contains(s, "=?") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
