package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/registry/sources"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/approvals/webhook"
)

// decoder returns what reads a file into c.
func (c *Config) decoder(name string) *strictyaml.Decoder {
	d := &strictyaml.Decoder{Reader: strictyaml.Reader{File: name, Removed: removed}, Types: types(), Kinds: texts(),
		Doc: describe}
	d.Alternatives = map[string][]string{"source": sources.FieldNames()}
	d.Kinds["file"] = c.fileKind(d)
	protocols, probes := []string{selu}, []string(nil)
	for _, p := range c.protocols {
		protocols, probes = append(protocols, p.Name), append(probes, p.Probes...)
		d.Extra = append(d.Extra, strictyaml.Extra{Name: p.Field, New: func() any { return p.New() }})
	}
	d.Kinds["protocol"], d.Kinds["probe"] = oneOf(protocols), oneOf(probes)
	return d
}

// fileKind returns the name of a file or a directory. The first place of each is recorded.
func (c *Config) fileKind(d *strictyaml.Decoder) *strictyaml.Kind {
	return &strictyaml.Kind{Name: "a file", Read: func(_ *strictyaml.Decoder, at strictyaml.Place, v reflect.Value) {
		var name string
		d.Text(&name, nil)(at)
		v.SetString(name)
		if _, known := c.Named[name]; name == "" || known {
			return
		}
		if c.Named == nil {
			c.Named = map[string]Named{}
		}
		c.Named[name] = Named{d.File, at.Node.Line}
	}}
}

// oneOf returns a kind of texts: one of a few words.
func oneOf(words []string) *strictyaml.Kind {
	return wordsOf(words, func(s string) (string, bool) { return s, slices.Contains(words, s) })
}

// wordsOf returns the kind of a Go type with names.
func wordsOf[T any](words []string, parse func(string) (T, bool)) *strictyaml.Kind {
	return &strictyaml.Kind{Name: "one of a few words", Words: words, Parse: func(s string) (any, string) {
		if v, ok := parse(s); ok {
			return v, ""
		}
		return nil, ""
	}}
}

// setOf returns the kind of a set of words, which is a list in the file.
func setOf[T ~uint8 | ~uint16](words []string, parse func(string) (T, bool)) *strictyaml.Kind {
	return &strictyaml.Kind{Name: "a list: " + strings.Join(words, ", "),
		Schema: map[string]any{"type": "array", "items": map[string]any{"enum": words}},
		Read: func(d *strictyaml.Decoder, at strictyaml.Place, v reflect.Value) {
			v.SetUint(0)
			d.List(func(at strictyaml.Place) {
				var word string
				d.Text(&word, func(s string) string {
					one, ok := parse(s)
					v.SetUint(v.Uint() | uint64(one))
					return unless(ok, "%s", strictyaml.NotOneOf(s, words))
				})(at)
			})(at)
		}}
}

// types returns the kinds of Go types.
func types() map[reflect.Type]*strictyaml.Kind {
	return map[reflect.Type]*strictyaml.Kind{
		reflect.TypeFor[call.Verdict](): wordsOf([]string{call.Allow.String(), call.Ask.String(), call.Block.String()},
			call.ParseVerdict),
		reflect.TypeFor[call.Class](): wordsOf([]string{call.Tool.String(), call.Environment.String()},
			call.ParseClass),
		reflect.TypeFor[call.Dialect](): wordsOf([]string{call.Auto.String(), call.Doc.String(), call.Live.String(),
			call.Legacy.String()}, call.ParseDialect),
		reflect.TypeFor[slog.Level]():     wordsOf([]string{"debug", "info", "warn", "error"}, parseLevel),
		reflect.TypeFor[tenant.Scopes]():  setOf(tenant.Scopes(1<<16-1).Names(), tenant.ParseScope),
		reflect.TypeFor[tenant.Asserts](): setOf(tenant.Asserts(1<<2-1).Names(), tenant.ParseAssert),
		reflect.TypeFor[operator.Roles](): setOf(operator.Roles(1<<4-1).Names(), operator.ParseRole),
		reflect.TypeFor[tenant.Grants](): {Name: "a list: pattern", Read: readGrants, Schema: map[string]any{
			"type": "array", "items": texted(""), "maxItems": 256}},
		reflect.TypeFor[mcp.Tenants](): {Name: "true, false or a list: name or *", Read: readTenants,
			Schema: map[string]any{"anyOf": []map[string]any{{"type": "boolean"},
				{"type": "array", "items": texted(tenantOrAll), "uniqueItems": true}}}},
		reflect.TypeFor[tenant.Hash](): {Name: "a hash", Parse: parseHash,
			Schema: only(`^(hmac-)?sha256:[0-9a-fA-F]{64}$`)},
		reflect.TypeFor[toolschema.Hash](): {Name: "a hash", Parse: parseToolHash, Schema: only(`^[0-9a-f]{64}$`)},
		reflect.TypeFor[toolset.Arguments](): {Name: "a mapping", Read: readArguments,
			Schema: map[string]any{"type": "object", "minProperties": 1, "maxProperties": 32}},
		reflect.TypeFor[time.Time](): {Name: "a time", Parse: parseTime, Schema: only(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T`)},
		reflect.TypeFor[netip.Prefix](): {Name: "an IP address or prefix", Parse: parsePrefix,
			Schema: only(`^[0-9a-fA-F:.]+(/[0-9]+)?$`)},
	}
}

// textKind returns a kind of texts with a check.
func textKind(name string, schema map[string]any, check func(string) string) *strictyaml.Kind {
	return &strictyaml.Kind{Name: name, Schema: schema, Parse: func(s string) (any, string) { return s, check(s) }}
}

// only returns the schema of texts that YAML cannot take for a number or a boolean.
func only(pattern string) map[string]any { return map[string]any{"type": "string", "pattern": pattern} }

// texted returns the schema of texts that YAML may take for a number or a boolean, to which the pattern does not apply.
func texted(pattern string) map[string]any {
	schema := map[string]any{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	if pattern != "" {
		schema["pattern"] = pattern
	}
	return schema
}

const (
	label   = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`
	word    = `^[A-Za-z0-9._-]{1,63}$`
	port    = `:[0-9]+$`
	httpURL = `^[Hh][Tt][Tt][Pp][Ss]?://`

	tenantOrAll = `^([*]|[A-Za-z0-9._-]{1,63})$`

	service = `^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*`
)

// texts returns the kinds of texts, by the tag kind.
func texts() map[string]*strictyaml.Kind {
	return map[string]*strictyaml.Kind{
		"listen":     textKind("host:port", only(port), checkListen),
		"listener":   textKind("host:port or unix:/path", only(`^unix:/|`+port), checkListener),
		"identifier": textKind("name", texted(""), checkIdentifier),
		"mode":       {Name: "a mode", Schema: texted(`^0[0-7]{3}$`), Parse: parseMode},
		"backend": textKind("host:port, dns:///host:port or a URL", only(`^dns:|`+httpURL+`|`+port),
			checkBackend),
		"shield_address":   textKind("host:port", only(port), checkShieldAddress),
		"shield_url":       textKind("URL", only(httpURL), checkShieldURL),
		"webhook_url":      textKind("URL", only(httpURL), webhook.Generic.CheckURL),
		"smtp_server":      textKind("host:port", only(port), checkSMTPServer),
		"mailbox":          textKind("address", only(`@`), checkMailbox),
		"public_url":       {Name: "URL", Schema: only(httpURL), Parse: parsePublicURL},
		"collector":        textKind("host:port or URL", only(httpURL+`|`+port), checkCollector),
		"redis":            textKind("URL", only(`^(embedded$|rediss?([+](sentinel|cluster))?://)`), CheckRedis),
		"api_server":       textKind("URL", only(`^https://`), checkAPIServer),
		"object_name":      textKind("name", texted(`^`+label+`$`), checkObjectName),
		"object_name or *": textKind("name or *", texted(`^([*]|`+label+`)$`), checkObjectNameOrAll),
		"object_port":      textKind("name or number", texted(`^[a-z0-9-]{1,15}$`), checkObjectPort),
		"url_path":         textKind("path", texted(`^/`), checkURLPath),
		"label_selector":   textKind("label selector", texted(""), checkLabelSelector),
		"dns_server":       textKind("ip:port", only(port), checkDNSServer),
		"domain":           {Name: "a domain", Schema: texted(`^[A-Za-z0-9.-]+$`), Parse: parseDomain},
		"host":             textKind("host name", texted(`^[^/ ]+$`), checkHost),
		"server_name":      textKind("host name or IP address", texted(`^[^/ ]+$`), checkServerName),
		"certificate_name": {Name: "a host name", Schema: texted(`^([*][.])?[A-Za-z0-9_.-]+$`),
			Parse: parseCertificateName},
		"spiffe":          textKind("SPIFFE ID", only(`^spiffe://[a-z0-9._-]+/`), checkSPIFFE),
		"origin":          textKind("origin", only(`^([*]|https?://[^/]+)$`), checkOrigin),
		"header":          textKind("header name", texted(headerName.String()), checkHeaderName),
		"zone":            textKind("name", texted(word), checkZone),
		"name":            textKind("name", texted(word), checkName),
		"shield":          textKind("name", texted(word), checkShield),
		"tenant":          textKind("name", texted(word), checkTenant),
		"tenant or *":     textKind("name or *", texted(tenantOrAll), checkTenantOrAll),
		"group":           textKind("group", nil, checkGroup),
		"replica":         textKind("name", texted(`^[^ ]+$`), checkReplica),
		"key_id":          textKind("ID of a key", texted(`^[a-z2-7]{16}$`), checkKeyID),
		"capability":      textKind("capability", texted(`^`+label+`$`), checkCapability),
		"capability or *": textKind("capability or *", texted(`^([*]|`+label+`)$`), checkCapabilityOrAll),
		"pattern":         textKind("pattern", nil, checkPattern),
		"tool":            textKind("tool or *", texted(`^([*]|[^*]+)$`), checkTool),
		"tool_pattern":    textKind("tool or pattern", texted(`^[^ ]+$`), toolset.CheckToolPattern),
		"tool_name":       textKind("name", texted(`^[A-Za-z0-9_.-]{1,128}$`), toolset.CheckToolName),
		"toolset":         textKind("name", texted(`^[a-z0-9][a-z0-9_-]{0,62}$`), toolset.CheckName),
		"tool_prefix":     textKind("name", texted(word), checkToolPrefix),
		"service":         textKind("gRPC service", texted(service+`$`), checkService),
		"method":          textKind("gRPC method", only(service+`/([A-Za-z_][A-Za-z0-9_]*|[*])$`), checkMethod),
		"algorithm":       oneOf(token.Algorithms()),
		"size": {Name: "a size", Like: ", as in 10MiB, 1.5GB or 4096", Schema: sizeSchema(),
			Parse: parseSize},
	}
}

var sizeText = regexp.MustCompile(`^[0-9]*[.]?[0-9]+(e[0-9]+)?[ ]*(KiB|MiB|GiB|TiB|kB|MB|GB|TB|B)?$`)

func sizeSchema() map[string]any {
	return map[string]any{"type": []string{"string", "number"}, "pattern": sizeText.String(), "exclusiveMinimum": 0}
}

// parseSize parses a number of bytes, with or without a unit.
func parseSize(s string) (any, string) {
	n, ok := tenant.ParseSize(s)
	if !ok || n == 0 || !sizeText.MatchString(s) {
		return nil, ""
	}
	return n, ""
}

// readTenants reads a list of tenants, or true for all of them.
func readTenants(d *strictyaml.Decoder, at strictyaml.Place, v reflect.Value) {
	v.SetZero()
	add := func(name string) { v.Set(reflect.Append(v, reflect.ValueOf(name))) }
	switch all, is := at.Bool(); {
	case all:
		add("*")
		return
	case is: // none
		return
	case !at.IsList():
		d.Fail(at, "must be true, false or a list of tenants, as in [acme]")
		return
	}
	d.List(func(at strictyaml.Place) {
		var name string
		if d.Text(&name, checkTenantOrAll)(at); slices.Contains(v.Interface().(mcp.Tenants), name) {
			d.Fail(at, "%s is already in the list", name)
		}
		add(name)
	})(at)
}

func parseLevel(s string) (level slog.Level, ok bool) {
	err := level.UnmarshalText([]byte(s))
	return level, err == nil && s == strings.ToLower(level.String())
}

// parseHash does not repeat the text, which may be the key itself.
func parseHash(s string) (any, string) {
	hash, ok := tenant.ParseHash(s)
	return hash, unless(ok, "is not a hash; it must be sha256: or hmac-sha256: and 64 hexadecimal digits, as "+
		"capgate keys new prints it")
}

// parseToolHash parses the hash of a tool.
func parseToolHash(s string) (any, string) {
	hash, ok := toolschema.ParseHash(s)
	return hash, unless(ok, "%.80q is not the hash of a tool; it has 64 hexadecimal digits, as capgate catalog show "+
		"prints it", s)
}

// readArguments reads fixed arguments of a tool.
func readArguments(d *strictyaml.Decoder, at strictyaml.Place, v reflect.Value) {
	var text json.RawMessage
	if d.JSON(&text)(at); text == nil {
		return // there is an error
	}
	args, err := toolset.ParseArguments(text)
	if err != nil {
		d.Fail(at, "%s", err)
	}
	v.Set(reflect.ValueOf(args))
}

func parseTime(s string) (any, string) {
	t, err := time.Parse(time.RFC3339, s)
	return t, unless(err == nil, "%q is not a time; write it with its zone, as in 2027-01-31T00:00:00Z", s)
}

func parseDomain(s string) (any, string) {
	return strings.TrimSuffix(strings.ToLower(s), "."), checkDomain(s)
}

func parseCertificateName(s string) (any, string) { return strings.ToLower(s), checkCertificateName(s) }

// parsePrefix parses an IP address or a prefix.
func parsePrefix(s string) (any, string) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(s); err == nil && addr.Zone() == "" && !addr.Is4In6() {
			prefix, err = addr.Prefix(addr.BitLen())
		}
	}
	switch {
	case err != nil || !prefix.IsValid():
		return nil, fmt.Sprintf("%q is neither an IP address nor a prefix; write 127.0.0.1 or 127.0.0.0/8", s)
	case prefix != prefix.Masked():
		return nil, fmt.Sprintf("%s has bits set after its length; write %s", s, prefix.Masked())
	}
	return prefix, ""
}

// readGrants reads a list of patterns.
func readGrants(d *strictyaml.Decoder, at strictyaml.Place, v reflect.Value) {
	var patterns []string
	d.List(func(at strictyaml.Place) {
		var one string
		if d.Text(&one, tenant.CheckGrant)(at); one != "" {
			patterns = append(patterns, one)
		}
	})(at)
	grants, err := tenant.ParseGrants(patterns)
	if err != nil {
		d.Fail(at, "%v", err)
	}
	v.Set(reflect.ValueOf(grants))
}
