package kubetest

import "strings"

// The resources of Slice, Service and ConfigMap.
const (
	EndpointSlices = "endpointslices"
	Services       = "services"
	ConfigMaps     = "configmaps"
)

// Service returns a Service with labels and annotations, each as name=value.
func Service(labels []string, annotations ...string) Object {
	pairs := func(all []string) Object {
		o := Object{}
		for _, pair := range all {
			name, value, _ := strings.Cut(pair, "=")
			o[name] = value
		}
		return o
	}
	return Object{"kind": "Service", "apiVersion": "v1", "metadata": Object{"labels": pairs(labels),
		"annotations": pairs(annotations)}, "spec": Object{"clusterIP": "None"}}
}

// ConfigMap returns a ConfigMap with a key.
func ConfigMap(key, text string) Object {
	return Object{"kind": "ConfigMap", "apiVersion": "v1", "metadata": Object{}, "data": Object{key: text}}
}

// Endpoint is a pod of a slice.
type Endpoint struct {
	Addr  string
	Zone  string
	Pod   string    // UID; "" names no pod
	State Condition // default Ready
}

// Condition is the state of a pod.
type Condition int

// The states of a pod, as the conditions of its endpoint express them.
const (
	Ready    Condition = iota // ready, serving
	Starting                  // neither ready nor serving
	Leaving                   // terminating, and still serving
	Gone                      // terminating, and no longer serving
	Unknown                   // without conditions, which counts as ready
)

// Slice returns an EndpointSlice of a Service, with one port named grpc.
func Slice(service string, port int, endpoints ...Endpoint) Object {
	family, list := "IPv4", []any{}
	for _, e := range endpoints {
		if strings.Contains(e.Addr, ":") {
			family = "IPv6"
		}
		one := Object{"addresses": []any{e.Addr}, "conditions": conditions(e.State), "nodeName": "node"}
		if e.Zone != "" {
			one["zone"] = e.Zone
			one["hints"] = Object{"forZones": []any{Object{"name": e.Zone}}}
		}
		if e.Pod != "" {
			one["targetRef"] = Object{"kind": "Pod", "namespace": "tools", "name": "pod-" + e.Pod, "uid": e.Pod}
		}
		list = append(list, one)
	}
	return Object{"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": family,
		"metadata": Object{"generateName": service + "-", "labels": Object{
			"kubernetes.io/service-name":             service,
			"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
		"endpoints": list,
		"ports":     []any{Object{"name": "grpc", "port": port, "protocol": "TCP"}}}
}

// WithLabels adds labels of the Service to a slice.
func WithLabels(slice Object, labels ...string) Object {
	all := slice["metadata"].(Object)["labels"].(Object)
	for _, pair := range labels {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return slice
}

// WithPorts replaces the ports of a slice.
func WithPorts(slice Object, ports ...Object) Object {
	all := []any{}
	for _, p := range ports {
		all = append(all, p)
	}
	slice["ports"] = all
	return slice
}

func conditions(of Condition) Object {
	if of == Unknown {
		return Object{}
	}
	return Object{"ready": of == Ready, "serving": of == Ready || of == Leaving,
		"terminating": of == Leaving || of == Gone}
}
