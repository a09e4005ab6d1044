package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse reads a configuration file whose text is data; name is what errors call
// it. The error is an Errors with every problem of the file.
func Parse(name string, data []byte) (*Config, error) {
	c := Default()
	p := &parser{reader: reader{file: name}, config: c, capabilities: map[string]int{}, services: map[string]string{}}
	if root := p.document(data); root != nil {
		p.top(place{node: root})
	}
	if len(p.errors) > 0 {
		slices.SortStableFunc(p.errors, func(a, b Error) int { return a.Line - b.Line })
		return nil, p.errors
	}
	return c, nil
}

// parser knows the fields of the file.
type parser struct {
	reader
	config       *Config
	capabilities map[string]int    // capability → line of its fleet
	services     map[string]string // gRPC service → path where it was given first
}

// document returns the file's one document, or nil after it told what is wrong.
func (p *parser) document(data []byte) *yaml.Node {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if err == nil {
		if err = d.Decode(&more); err == nil {
			p.fail(place{node: &more}, "a second document begins here; a configuration is one document")
			return nil
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		p.errors = append(p.errors, syntaxError(p.file, err))
		return nil
	case len(doc.Content) == 0 || doc.Content[0].Tag == "!!null":
		p.fail(place{path: "fleets", node: &yaml.Node{Line: 1}}, "the file is empty; at least one fleet is needed")
		return nil
	}
	return doc.Content[0]
}

// syntaxError takes the line out of the text of yaml's error, "yaml: line 3: …",
// which is the only place where it is.
func syntaxError(file string, err error) Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, cause, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, text = n, cause
			}
		}
	}
	return Error{File: file, Line: line, Text: "not YAML: " + text}
}

func (p *parser) top(at place) {
	c := p.config
	p.mapping(at, map[string]field{
		"listen":       p.text(&c.Listen, checkListen),
		"admin":        p.text(&c.Admin, checkListen),
		"redis":        p.redis,
		"replicas":     p.replicas,
		"domains":      p.list(p.domain),
		"zone":         p.text(&c.Zone, checkZone),
		"tls":          p.serverTLS,
		"drain":        p.drain,
		"log":          p.log,
		"fleets":       p.list(p.fleet),
		"dns":          p.dns,
		"registration": p.registration,
	})
	if c.Listen == c.Admin && !strings.HasSuffix(c.Listen, ":0") {
		p.fail(at.child("admin"), "%s is the public address too; operators need one of their own", c.Admin)
	}
	if len(c.Fleets) == 0 && len(c.Registration.Capabilities) == 0 {
		p.missing(at, "fleets", "at least one fleet is needed")
	}
}

func (p *parser) domain(at place) {
	var domain string
	p.text(&domain, checkDomain)(at)
	domain = strings.TrimSuffix(strings.ToLower(domain), ".")
	switch {
	case domain == "":
	case slices.Contains(p.config.Domains, domain):
		p.fail(at, "%s is given twice", domain)
	default:
		p.config.Domains = append(p.config.Domains, domain)
	}
}

func (p *parser) serverTLS(at place) {
	t := &p.config.TLS
	p.mapping(at, map[string]field{
		"cert_file":      p.text(&t.CertFile, nil),
		"key_file":       p.text(&t.KeyFile, nil),
		"client_ca_file": p.text(&t.ClientCAFile, nil),
	})
	if t.CertFile == "" || t.KeyFile == "" {
		p.fail(at, "cert_file and key_file are both needed; leave tls out for cleartext")
	}
}

func (p *parser) drain(at place) {
	p.mapping(at, map[string]field{
		"delay":   p.duration(&p.config.Drain.Delay, 0),
		"timeout": p.duration(&p.config.Drain.Timeout, 0),
	})
}

func (p *parser) log(at place) {
	var level string
	l := &p.config.Log
	p.mapping(at, map[string]field{
		"level": p.text(&level, func(v string) string {
			levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
			found, ok := levels[v]
			if !ok {
				return fmt.Sprintf("%q is not a level; it must be debug, info, warn or error", v)
			}
			l.Level = found
			return ""
		}),
		"format": p.text(&l.Format, func(v string) string {
			if v != "text" && v != "json" {
				return fmt.Sprintf("%q is not a format; it must be text or json", v)
			}
			return ""
		}),
	})
}
