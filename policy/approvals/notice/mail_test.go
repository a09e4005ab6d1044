package notice_test

import (
	"bytes"
	"mime"
	"net/mail"
	"testing"

	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/approvals/notice"
)

// TestMailThreads: all messages about an approval refer to the first one, and addresses are as configured.
func TestMailThreads(t *testing.T) {
	t.Parallel()
	read := func(n notice.Notice, e *notice.Envelope) *mail.Message {
		body, err := notice.Mail(&n, e)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := read(of("x"), envelope()).Header
	e := envelope()
	e.First = false
	answer := read(of("x"), e).Header
	const thread = "<apr_1@example.com>"
	if first.Get("Message-ID") != thread || first.Get("References") != "" || answer.Get("In-Reply-To") != thread ||
		answer.Get("References") != thread || answer.Get("Message-ID") != "<msg_1@example.com>" {
		t.Errorf("%v\n%v", first, answer)
	}
	if at, err := first.Date(); err != nil || !at.Equal(e.Date) {
		t.Errorf("date %v, %v", at, err)
	}
	from, err := first.AddressList("From")
	if err != nil || len(from) != 1 || *from[0] != e.From {
		t.Errorf("from %v, %v", from, err)
	}
	to, err := first.AddressList("To")
	if err != nil || len(to) != 2 || *to[0] != e.To[0] || *to[1] != e.To[1] ||
		first.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("to %v, %v; Auto-Submitted: %s", to, err, first.Get("Auto-Submitted"))
	}
}

// TestSubjectIsLiteral: a tool's name is in the subject unchanged, even if it looks like an encoded word.
func TestSubjectIsLiteral(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"send", "=?utf-8?Q?=61?=", "=?utf-8?B?YQ==?=", "x =?us-ascii?q?=E2=80=AE?="} {
		a := approvals.Approval{State: approvals.Pending}
		a.Tenant, a.Capability, a.Tool = "t", "c", tool
		n := notice.New(approvals.EventCreated, &a)
		body, err := notice.Mail(&n, envelope())
		if err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		if want := "Approval needed: " + tool + " of c, tenant t"; err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
