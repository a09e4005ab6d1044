package kubernetes

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
)

// The annotations of a Service that announces a capability.
const (
	annotation           = "capgate.dev/"
	capabilityAnnotation = annotation + "capability" // required
	portAnnotation       = annotation + "port"
	weightAnnotation     = annotation + "weight"
	dialectAnnotation    = annotation + "dialect"
	protocolAnnotation   = annotation + "protocol"
	pathAnnotation       = annotation + "path"
)

// defaultWeight and maxWeight are those of any backend.
const (
	defaultWeight = 100
	maxWeight     = 10_000
)

// service has what is used of a Service.
type service struct {
	kubeapi.Meta `json:"metadata"`
}

// serviceMeta returns the metadata of a Service.
func serviceMeta(s *service) *kubeapi.Meta { return &s.Meta }

// services are the resource of all namespaces.
var services = kubeapi.Resource{Version: "v1", Plural: "services"}

// namespaces returns the namespaces of the Services.
func (w *Watch) namespaces(own string) map[string]bool {
	chosen := map[string]bool{}
	if !w.Enabled {
		return chosen
	}
	for _, namespace := range w.Namespaces {
		if namespace == "*" {
			namespace = allNamespaces
		}
		chosen[namespace] = true
	}
	if len(w.Namespaces) == 0 && own != "" {
		chosen[own] = true
	}
	return chosen
}

// announced returns the targets of Services with annotations, and the problems of the others that have some.
func (w *Watch) announced(objects []*service) (targets []Target, problems []string) {
	protocols := map[string]string{}
	for _, s := range objects {
		if s.Annotations[capabilityAnnotation] == "" {
			continue
		}
		t, problem := w.target(s)
		if first, known := protocols[t.Capability]; problem == "" && known && first != t.Web {
			problem = fmt.Sprintf("%s: another Service announces %s with another protocol", protocolAnnotation,
				t.Capability)
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("service %s/%s: %s", s.Namespace, s.Name, problem))
			continue
		}
		protocols[t.Capability] = t.Web
		targets = append(targets, t)
	}
	return targets, problems
}

// target returns what a Service announces, or a problem.
func (w *Watch) target(s *service) (t Target, problem string) {
	t = Target{Capability: s.Annotations[capabilityAnnotation], Weight: defaultWeight, Dialect: call.Auto,
		created: s.Created,
		Source:  Source{Namespace: s.Namespace, Service: s.Name, Port: s.Annotations[portAnnotation]}}
	fleet, listed := w.Listed[t.Capability]
	if !call.IsLabel(t.Capability) {
		return t, fmt.Sprintf("%s: %.64q is not a capability id", capabilityAnnotation, t.Capability)
	}
	switch {
	case len(w.Capabilities) == 0 && listed:
		return t, fmt.Sprintf("%s: %s has a fleet in the configuration: name it in kubernetes.watch.capabilities to "+
			"let Services add backends", capabilityAnnotation, t.Capability)
	case !w.permits(t.Capability):
		return t, fmt.Sprintf("%s: kubernetes.watch.capabilities does not permit %s", capabilityAnnotation,
			t.Capability)
	}
	if t.Protocol, problem = protocolOf(s, fleet, listed); problem != "" {
		return t, problem
	}
	if t.Path = s.Annotations[pathAnnotation]; !IsPath(cmp.Or(t.Path, defaultPath)) {
		return t, fmt.Sprintf("%s: %.64q is not the path of a URL, as in /mcp", pathAnnotation, t.Path)
	}
	t.manifest = s.Annotations[manifestAnnotation]
	if text := s.Annotations[weightAnnotation]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxWeight {
			return t, fmt.Sprintf("%s: %.20q must be a whole number from 0 to %d", weightAnnotation, text, maxWeight)
		}
		t.Weight = n
	}
	if text := s.Annotations[dialectAnnotation]; text != "" {
		dialect, ok := call.ParseDialect(text)
		if !ok {
			return t, fmt.Sprintf("%s: %.20q must be auto, doc, live or legacy", dialectAnnotation, text)
		}
		t.Dialect = dialect
	}
	return t, ""
}

// The values of protocolAnnotation.
const (
	seluProtocol = "selu"
	mcpProtocol  = "mcp"
)

// protocolOf returns the protocol that a Service announces. Default that of its fleet in the file.
func protocolOf(s *service, fleet Protocol, listed bool) (p Protocol, problem string) {
	text := s.Annotations[protocolAnnotation]
	switch text {
	case "":
		return fleet, ""
	case mcpProtocol:
		p.Web = mcpProtocol
	case seluProtocol:
	default:
		return p, fmt.Sprintf("%s: %.20q must be selu or mcp; fleets of other protocols are in the configuration",
			protocolAnnotation, text)
	}
	if listed && p.Web != fleet.Web {
		return p, fmt.Sprintf("%s: the fleet in the configuration has another protocol", protocolAnnotation)
	}
	p.Secure = fleet.Secure
	return p, ""
}

// IsPath reports whether a text is the path of a URL, without escapes.
func IsPath(text string) bool {
	return len(text) <= maxPath && webPath.MatchString(text)
}

// maxPath is the length of the longest path, in bytes.
const maxPath = 200

var webPath = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

// permits reports whether Services may announce a capability.
func (w *Watch) permits(capability string) bool {
	return len(w.Capabilities) == 0 || slices.ContainsFunc(w.Capabilities, func(pattern string) bool {
		ok, err := path.Match(pattern, capability)
		return ok && err == nil
	})
}
