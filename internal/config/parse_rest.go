package config

import "github.com/capgate/capgate/internal/lib/strictyaml"

// REST configures the JSON API.
type REST struct {
	// tool_errors: http makes a tool's own error a 422 with a problem document, unless the request says Prefer:
	// errors=result; result, the default, leaves it in the answer, with 200, unless the request says
	// errors=http
	HTTPErrors bool
}

func (p *parser) rest(at strictyaml.Place) {
	var errors string
	p.Mapping(at, map[string]strictyaml.Field{
		"tool_errors": p.Text(&errors, oneOf("result", "http")),
	})
	p.config.REST.HTTPErrors = errors == "http"
}
