package manifest

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// DefaultDiscoveryTool lists the tools of a dynamic capability without discovery_tool_name.
const DefaultDiscoveryTool = "list_tools"

// MaxTools is the greatest number of tools of one capability.
const MaxTools = 1000

// MaxBytes is the greatest length of a manifest.
const MaxBytes = 4 << 20

// Parse parses the text of a manifest. Errors use name for it. The error is a strictyaml.Errors with all problems of
// the file.
func Parse(name string, data []byte) (*Manifest, error) { return ParseWithin(name, data, math.MaxInt) }

// ParseWithin is Parse with a bound of the Size of the manifest. It stops at the first tool beyond that.
func ParseWithin(name string, data []byte, size int) (*Manifest, error) {
	p := &parser{Reader: strictyaml.Reader{File: name}, room: size, manifest: &Manifest{
		DiscoveryTool: DefaultDiscoveryTool,
		Network:       Network{Mode: NoNetwork},
		Filesystem:    NoFilesystem,
		Resources:     Resources{MaxMemoryMB: 128, MaxCPUFraction: 0.5, MaxCPU: 30 * time.Second, PidsLimit: 64},
	}, tools: map[string]int{}, credentials: map[string]int{}}
	if len(data) > MaxBytes {
		return nil, strictyaml.Errors{{File: name, Line: 1,
			Text: fmt.Sprintf("the file has %d bytes; a manifest may have at most %d", len(data), MaxBytes)}}
	}
	if root, ok := p.Document(data, "a manifest", "id and image are required"); ok {
		p.top(root)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.manifest, nil
}

// parser reads the fields of the file.
type parser struct {
	strictyaml.Reader
	manifest    *Manifest
	tools       map[string]int // name → line
	credentials map[string]int // name → line
	room        int            // for further tools, in bytes
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
		p.Missing(at, "id", "required: the name of the capability in calls, as in weather-lookup")
	}
	if m.Image == "" {
		p.Missing(at, "image", "required: the container image, as in ghcr.io/example/weather-lookup:1.0.0")
	}
	p.checkToolSource(at)
	p.checkClass(at)
}

// checkToolSource checks tools against tool_source.
func (p *parser) checkToolSource(at strictyaml.Place) {
	m := p.manifest
	switch {
	case m.Dynamic && len(m.Tools) > 0:
		p.Fail(at.Child("tools"),
			"not allowed with tool_source: dynamic; leave tools out, or write tool_source: manifest")
	case m.Dynamic:
	case at.Has("discovery_tool_name"):
		p.Fail(at.Child("discovery_tool_name"),
			"only for tool_source: dynamic; this manifest lists its tools")
	default:
		m.DiscoveryTool = ""
	}
	if len(m.Tools) > MaxTools {
		p.Fail(at.Child("tools"), "%d tools are too many; a capability may have at most %d", len(m.Tools), MaxTools)
	}
}

// checkClass checks the fields that only one of the classes may have.
func (p *parser) checkClass(at strictyaml.Place) {
	m := p.manifest
	environment := m.Class == call.Environment
	if m.Filesystem == Workspace && !environment {
		p.Fail(at.Child("filesystem"), "workspace is for class: environment only; a tool keeps nothing between calls")
	}
	if m.Sharing.Shared && environment {
		p.Fail(at.Child("sharing"), "shared is not possible for class: environment; each session has its own")
	}
	if m.Sharing.Shared && m.Filesystem == Workspace {
		p.Fail(at.Child("sharing"),
			"shared is not possible with filesystem: workspace; sessions would see each other's files")
	}
	if m.Cache && !environment {
		p.Fail(at.Child("cache"), "enabled is for class: environment only")
	}
}

// oneOf parses one of the given words.
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
		return fmt.Sprintf("%q is not an id; it must be 1 to 63 lower-case letters, digits and hyphens, "+
			"with no hyphen at an end", v)
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

// checkToolName rejects names that agents could not use: they see capability__tool, which is split at the first "__".
// So a tool's name may contain it, but a capability's may not.
func checkToolName(v string) string {
	if !toolName.MatchString(v) {
		return fmt.Sprintf("%.40q is not a tool's name; it must be 1 to 128 letters, digits, underscores, "+
			"hyphens and dots", v)
	}
	return ""
}
