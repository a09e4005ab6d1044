package manifest

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// DefaultDiscoveryTool lists the tools of a dynamic capability that names no other.
const DefaultDiscoveryTool = "list_tools"

// MaxTools is how many tools one capability may have.
const MaxTools = 1000

// MaxBytes is how long a manifest may be.
const MaxBytes = 4 << 20

// Parse reads a manifest whose text is data; name is what errors call it. The error is a
// strictyaml.Errors with every problem of the file.
func Parse(name string, data []byte) (*Manifest, error) {
	p := &parser{Reader: strictyaml.Reader{File: name}, manifest: &Manifest{
		DiscoveryTool: DefaultDiscoveryTool,
		Network:       Network{Mode: NoNetwork},
		Filesystem:    NoFilesystem,
		Resources:     Resources{MaxMemoryMB: 128, MaxCPUFraction: 0.5, MaxCPU: 30 * time.Second, PidsLimit: 64},
	}, tools: map[string]int{}, credentials: map[string]int{}}
	if len(data) > MaxBytes {
		return nil, strictyaml.Errors{{File: name, Line: 1, Text: fmt.Sprintf("the file has %d bytes; a manifest may have %d", len(data), MaxBytes)}}
	}
	if root, ok := p.Document(data, "a manifest", "id and image are needed"); ok {
		p.top(root)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.manifest, nil
}

// parser knows the fields of the file.
type parser struct {
	strictyaml.Reader
	manifest    *Manifest
	tools       map[string]int // name → line
	credentials map[string]int // name → line
}

func (p *parser) top(at strictyaml.Place) {
	m := p.manifest
	p.Mapping(at, map[string]strictyaml.Field{
		"id":                  p.Text(&m.ID, checkID),
		"class":               p.class,
		"image":               p.Text(&m.Image, checkImage),
		"tool_source":         p.toolSource,
		"discovery_tool_name": p.Text(&m.DiscoveryTool, checkToolName),
		"tools":               p.List(p.tool),
		"network":             p.network,
		"filesystem":          p.filesystem,
		"credentials":         p.List(p.credential),
		"resources":           p.resources,
		"sharing":             p.sharing,
		"cache":               p.cache,
	})
	if m.ID == "" {
		p.Missing(at, "id", "needed: the name under which the capability is called, as in weather-lookup")
	}
	if m.Image == "" {
		p.Missing(at, "image", "needed: the container image, as in ghcr.io/example/weather-lookup:1.0.0")
	}
	p.toolsFit(at)
	p.classFits(at)
}

// toolsFit checks what the source of tools and the tools say of each other.
func (p *parser) toolsFit(at strictyaml.Place) {
	m := p.manifest
	switch {
	case m.Dynamic && len(m.Tools) > 0:
		p.Fail(at.Child("tools"), "tool_source is dynamic, so the tools are asked for; leave tools out, or write tool_source: manifest")
	case m.Dynamic:
	case at.Has("discovery_tool_name"):
		p.Fail(at.Child("discovery_tool_name"), "only for tool_source: dynamic; the tools of this manifest are written in it")
	default:
		m.DiscoveryTool = ""
	}
	if len(m.Tools) > MaxTools {
		p.Fail(at.Child("tools"), "%d tools are too many; a capability may have %d", len(m.Tools), MaxTools)
	}
}

// classFits checks what only one of the classes may have.
func (p *parser) classFits(at strictyaml.Place) {
	m := p.manifest
	environment := m.Class == call.Environment
	if m.Filesystem == Workspace && !environment {
		p.Fail(at.Child("filesystem"), "workspace is for class: environment only; a tool keeps nothing between calls")
	}
	if m.Sharing.Shared && environment {
		p.Fail(at.Child("sharing"), "shared is not possible for class: environment; each session has its own")
	}
	if m.Sharing.Shared && m.Filesystem == Workspace {
		p.Fail(at.Child("sharing"), "shared is not possible with filesystem: workspace; sessions would see each other's files")
	}
	if m.Cache && !environment {
		p.Fail(at.Child("cache"), "enabled is for class: environment only")
	}
}

// oneOf reads one of some words.
func oneOf[T ~string](p *parser, to *T, words ...T) strictyaml.Field {
	var s string
	return p.Text(&s, func(v string) string {
		for _, w := range words {
			if T(v) == w {
				*to = w
				return ""
			}
		}
		return fmt.Sprintf("%q is not possible; it must be %s", v, either(words))
	})
}

func either[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

func (p *parser) class(at strictyaml.Place) {
	var class string
	oneOf(p, &class, call.Tool.String(), call.Environment.String())(at)
	p.manifest.Class, _ = call.ParseClass(class)
}

func (p *parser) toolSource(at strictyaml.Place) {
	var source string
	oneOf(p, &source, "manifest", "dynamic")(at)
	p.manifest.Dynamic = source == "dynamic"
}

func (p *parser) filesystem(at strictyaml.Place) {
	oneOf(p, &p.manifest.Filesystem, NoFilesystem, Temp, Workspace)(at)
}

func checkID(v string) string {
	if !call.IsLabel(v) {
		return fmt.Sprintf("%q is not an id; it must be 1 to 63 lower-case letters, digits and hyphens, with no hyphen at an end", v)
	}
	return ""
}

func checkImage(v string) string {
	if strings.ContainsAny(v, " \t\r\n") || len(v) > 512 {
		return fmt.Sprintf("%.40q is not an image; write it as in ghcr.io/example/weather-lookup:1.0.0", v)
	}
	return ""
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkToolName refuses what agents could not name: they see capability__tool, split at
// the first "__", so a tool's name may have one but its capability's may not.
func checkToolName(v string) string {
	if !toolName.MatchString(v) {
		return fmt.Sprintf("%.40q is not a tool's name; it must be 1 to 128 letters, digits, underscores, hyphens and dots", v)
	}
	return ""
}
