package config

import "github.com/capgate/capgate/internal/lib/strictyaml"

// Audit configures the audit log.
type Audit struct {
	To       string // to: a file, or stdout; default none, and there is no audit log
	Required bool   // required: true rejects calls while they cannot be recorded; default false
	// queue: records that wait to be written, and with required calls that run, 100 to 10000000; default 8192
	Queue int
}

func (p *parser) audit(at strictyaml.Place) {
	a := &p.config.Audit
	p.Mapping(at, map[string]strictyaml.Field{
		"to":       p.names(&a.To),
		"required": p.Boolean(&a.Required),
		"queue":    p.Integer(&a.Queue, 100, 10_000_000),
	})
	if a.To == "" {
		p.Missing(at, "to", "required: a file, as in /var/log/capgate/audit.log, or stdout")
	}
}
