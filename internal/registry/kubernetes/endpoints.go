package kubernetes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
)

// serviceLabel is the label of a slice with the name of its Service. Slices also have the labels of their Service.
const serviceLabel = "kubernetes.io/service-name"

// maxEndpoints bounds the backends of one target.
const maxEndpoints = 10_000

// endpointSlice has what is used of a discovery.k8s.io/v1 EndpointSlice.
type endpointSlice struct {
	kubeapi.Meta `json:"metadata"`
	AddressType  string `json:"addressType"`
	Endpoints    []struct {
		Addresses  []string `json:"addresses"` // all of the same backend; the first is used
		Conditions struct {
			Ready       *bool `json:"ready"`
			Serving     *bool `json:"serving"`
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
		Zone      string `json:"zone"`
		TargetRef struct {
			UID string `json:"uid"`
		} `json:"targetRef"`
	} `json:"endpoints"`
	Ports []slicePort `json:"ports"`
}

// slicePort is a port of all endpoints of a slice.
type slicePort struct {
	Name        string `json:"name"`
	Port        uint16 `json:"port"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol"`
}

// sliceMeta returns the metadata of a slice.
func sliceMeta(s *endpointSlice) *kubeapi.Meta { return &s.Meta }

// usage reports whether an endpoint gets calls.
type usage int

// The usages, from worst to best.
const (
	unusable usage = iota
	leaving        // it terminates and still serves: calls in progress finish
	usable
)

// endpoint is one backend of a target.
type endpoint struct {
	addr  netip.AddrPort
	host  string // the Service's DNS name
	zone  string
	pod   string // UID; "": unknown
	usage usage
}

// found are the endpoints of a target, sorted by address, and what is wrong with its slices.
type found struct {
	endpoints []endpoint
	problems  []string
}

// endpointsOf returns the usable and the leaving endpoints of a target. A pod is one backend, also if it is in several
// slices, with an address of each family: its IPv4 address then counts.
func endpointsOf(slicesOf []*endpointSlice, t *Target, permitted func(netip.Addr) error) (f found) {
	byAddr, byPod := map[netip.AddrPort]endpoint{}, map[string]endpoint{}
	for _, s := range slicesOf {
		if s.AddressType != "IPv4" && s.AddressType != "IPv6" {
			f.problem("%s: address type %.20q is not supported", name(s), s.AddressType)
			continue
		}
		number, problem := choosePort(s.Ports, t.Port, t.Web != "")
		if problem != "" {
			f.problem("%s: %s", name(s), problem)
			continue
		}
		for i := range s.Endpoints {
			e, ok := s.endpoint(i, number)
			if !ok {
				continue
			}
			if err := permitted(e.addr.Addr()); err != nil {
				f.problem("%s: %v; registration.allow can permit it", name(s), err)
				continue
			}
			if e.pod == "" {
				keepBest(byAddr, e.addr, e)
			} else {
				keepBest(byPod, e.pod+" "+strconv.Itoa(int(number)), e)
			}
		}
	}
	for _, e := range byPod {
		keepBest(byAddr, e.addr, e)
	}
	for _, e := range byAddr {
		f.endpoints = append(f.endpoints, e)
	}
	slices.SortFunc(f.endpoints, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
	if len(f.endpoints) > maxEndpoints {
		f.problem("%d endpoints; only the first %d are used", len(f.endpoints), maxEndpoints)
		f.endpoints = f.endpoints[:maxEndpoints]
	}
	return f
}

// problem adds a problem, of which only a few are kept.
func (f *found) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(f.problems) < 3 && !slices.Contains(f.problems, text) {
		f.problems = append(f.problems, text)
	}
}

// name returns the name of a slice for errors.
func name(s *endpointSlice) string { return "endpointslice " + s.Namespace + "/" + s.Name }

// keepBest keeps an endpoint if there is no better one with its key.
func keepBest[K comparable](all map[K]endpoint, key K, e endpoint) {
	if other, known := all[key]; !known || better(&e, &other) {
		all[key] = e
	}
}

// better reports whether a is to be used in place of b: the more usable one, then the one with an IPv4 address.
func better(a, b *endpoint) bool {
	family := func(e *endpoint) int {
		if e.addr.Addr().Is4() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.usage, b.usage), cmp.Compare(family(a), family(b)), b.addr.Compare(a.addr)) > 0
}

// endpoint returns the endpoint number i of a slice; false: it gets no calls.
func (s *endpointSlice) endpoint(i int, port uint16) (e endpoint, ok bool) {
	from := &s.Endpoints[i]
	ready := from.Conditions.Ready == nil || *from.Conditions.Ready
	serving := ready
	if from.Conditions.Serving != nil {
		serving = *from.Conditions.Serving
	}
	terminating := from.Conditions.Terminating != nil && *from.Conditions.Terminating
	switch {
	case terminating && serving:
		e.usage = leaving
	case !terminating && ready:
		e.usage = usable
	default:
		return e, false
	}
	if len(from.Addresses) == 0 {
		return e, false
	}
	addr, err := netip.ParseAddr(from.Addresses[0])
	if err != nil {
		return e, false
	}
	e.addr, e.pod = netip.AddrPortFrom(addr.Unmap().WithZone(""), port), from.TargetRef.UID
	e.host = s.Labels[serviceLabel] + "." + s.Namespace + ".svc"
	if call.IsZone(from.Zone) {
		e.zone = from.Zone
	}
	return e, true
}

// grpcProtocols and webProtocols are the values of appProtocol of ports with gRPC, and with MCP.
var (
	grpcProtocols = []string{"grpc", "kubernetes.io/h2c", "h2c", "http2", "kubernetes.io/grpc"}
	webProtocols  = []string{"http", "https", "mcp"}
)

// maxPortNames bounds the ports that a problem lists.
const maxPortNames = 5

// choosePort returns the number of the wanted port of a slice, which is a name, a number or "", or a problem.
func choosePort(ports []slicePort, wanted string, web bool) (number uint16, problem string) {
	var tcp, fitting []slicePort
	protocols := grpcProtocols
	if web {
		protocols = webProtocols
	}
	for _, p := range ports {
		if p.Port == 0 || p.Protocol != "" && p.Protocol != "TCP" {
			continue
		}
		if wanted != "" && (p.Name == wanted || strconv.Itoa(int(p.Port)) == wanted) {
			return p.Port, ""
		}
		tcp = append(tcp, p)
		if slices.Contains(protocols, strings.ToLower(p.AppProtocol)) {
			fitting = append(fitting, p)
		}
	}
	switch {
	case wanted == "" && len(tcp) == 1:
		return tcp[0].Port, ""
	case wanted == "" && len(fitting) == 1:
		return fitting[0].Port, ""
	case len(tcp) == 0:
		return 0, "has no TCP port"
	}
	var names []string
	for _, p := range tcp[:min(len(tcp), maxPortNames)] {
		names = append(names, cmp.Or(p.Name, strconv.Itoa(int(p.Port))))
	}
	list := strings.Join(names, ", ")
	if len(tcp) > maxPortNames {
		list += ", …"
	}
	if wanted != "" {
		return 0, fmt.Sprintf("has no port %.20s; it has %s", wanted, list)
	}
	return 0, fmt.Sprintf("has the ports %s; name one with port", list)
}
