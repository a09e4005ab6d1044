package config

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) class(f *Fleet) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		c, ok := call.ParseClass(v)
		if !ok {
			return fmt.Sprintf("%q is not a class; it must be tool or environment", v)
		}
		f.Class = c
		return ""
	})
}

func (p *parser) affinity(to *string) strictyaml.Field {
	return p.Text(to, func(v string) string {
		if v != "session" && v != "none" {
			return fmt.Sprintf("%q is not possible; it must be session or none", v)
		}
		return ""
	})
}

func (p *parser) artifacts(f *Fleet) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		if v != "own" && v != "shared" {
			return fmt.Sprintf("%q is not possible; it must be own or shared", v)
		}
		f.Affinity.SharedArtifacts = v == "shared"
		return ""
	})
}

// period parses a TTL of sessions or artifacts.
func (p *parser) period(to *time.Duration) strictyaml.Field {
	const least, most = 10 * time.Second, 720 * time.Hour
	var d time.Duration
	read := p.Duration(&d, least)
	return func(at strictyaml.Place) {
		read(at)
		switch {
		case d > most:
			p.Fail(at, "%s is too long; at most %s", d, most)
		case d > 0:
			*to = d
		}
	}
}

func checkSession(v string) string {
	if len(v) > 512 {
		return "a session's id has at most 512 bytes"
	}
	return ""
}
