package webhook

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/lib/mailer"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// sendMail sends a message. A message that its server rejects permanently is not sent again.
func (p *endpoint) sendMail(ctx context.Context, text []byte) reply {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	from, to, err := p.Mail.addresses()
	if err != nil {
		return reply{reason: err.Error()}
	}
	m := mailer.Message{From: from.Address, Text: text}
	for i := range to {
		m.To = append(m.To, to[i].Address)
	}
	server := mailer.Server{Addr: p.Mail.Server, Security: p.Mail.Security, TLS: p.Mail.TLS, Username: p.Mail.Username,
		Password: p.Mail.Password}
	rejected, err := server.Send(ctx, &m)
	if err == nil {
		return reply{delivered: true, rejected: rejected}
	}
	r := reply{reason: untrusted.Cut(err.Error(), maxReason)}
	var failure *mailer.Error
	r.gone = errors.As(err, &failure) && failure.Permanent
	return r
}
