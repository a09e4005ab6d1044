package config

import "github.com/capgate/capgate/internal/strictyaml"

func (p *parser) rest(at strictyaml.Place) {
	var errors string
	p.Mapping(at, map[string]strictyaml.Field{
		"tool_errors": p.Text(&errors, oneOf("result", "http")),
	})
	p.config.REST.HTTPErrors = errors == "http"
}
