package webhook

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// sendMail hands in a message. A message that its server rejects for good is not sent again.
func (p *endpoint) sendMail(ctx context.Context, text []byte) reply {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	m := mailer.Message{From: p.Mail.From.Address, Text: text}
	for i := range p.Mail.To {
		m.To = append(m.To, p.Mail.To[i].Address)
	}
	rejected, err := p.Mail.Server.Send(ctx, &m)
	if err == nil {
		return reply{delivered: true, rejected: rejected}
	}
	r := reply{reason: untrusted.Cut(err.Error(), maxReason)}
	var failure *mailer.Error
	r.gone = errors.As(err, &failure) && failure.Permanent
	return r
}
