package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

func (p *parser) webhook(at strictyaml.Place) {
	w := &p.config.Webhook
	w.Timeout, w.Attempts = 10*time.Second, 10
	proxy := ""
	p.Mapping(at, map[string]strictyaml.Field{
		"url":         p.Text(&w.URL, checkWebhookURL),
		"secret_file": p.names(&w.SecretFile),
		"events":      p.List(p.webhookEvent),
		"timeout":     p.DurationUpTo(&w.Timeout, 100*time.Millisecond, time.Minute),
		"attempts":    p.Integer(&w.Attempts, 1, 100),
		"proxy":       p.Text(&proxy, checkProxy),
	})
	w.Proxy = proxy == "environment"
	if !at.Has("url") {
		p.Missing(at, "url", "required: the receiver of events, as in https://hooks.example.com/approvals")
	}
	if !at.Has("secret_file") {
		p.Missing(at, "secret_file", "required: a file with the secrets that sign requests")
	}
	if !at.Has("events") {
		w.Events = []string{"asked"}
	}
}

func (p *parser) webhookEvent(at strictyaml.Place) {
	all := []string{"asked", "approved", "denied", "used", "released", "expired"}
	w := &p.config.Webhook
	var event string
	p.Text(&event, func(v string) string {
		switch {
		case !slices.Contains(all, v):
			return fmt.Sprintf("%q is not an event; it must be one of %s", v, strings.Join(all, ", "))
		case slices.Contains(w.Events, v):
			return v + " is there twice"
		}
		return ""
	})(at)
	w.Events = append(w.Events, event)
}

func checkProxy(v string) string {
	if v != "none" && v != "environment" {
		return fmt.Sprintf("%q is not known; it must be none or environment", v)
	}
	return ""
}

// checkWebhookURL does not repeat the URL, which may contain a secret.
func checkWebhookURL(v string) string {
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not an HTTP URL; write it whole, as in https://hooks.example.com/approvals"
	case u.User != nil || u.Fragment != "":
		return "must have neither a user nor a fragment"
	}
	return ""
}
