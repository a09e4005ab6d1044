package kubeapi

import "net/url"

// Resource is one kind of objects in one namespace.
type Resource struct {
	Group     string // of its API; "": the core's
	Version   string
	Plural    string // name in URLs
	Namespace string // "": all
	Selector  string // of labels; "": all
	Object    string // name of the only object; "": all
}

// path returns the URL path of the resource.
func (r Resource) path() string {
	path := "/apis/" + r.Group
	if r.Group == "" {
		path = "/api"
	}
	path += "/" + r.Version
	if r.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(r.Namespace)
	}
	return path + "/" + r.Plural
}

// query returns the parameters that choose the objects.
func (r Resource) query() url.Values {
	query := url.Values{}
	if r.Selector != "" {
		query.Set("labelSelector", r.Selector)
	}
	if r.Object != "" {
		query.Set("fieldSelector", "metadata.name="+r.Object)
	}
	return query
}

// Name returns the name of the resource in roles, as in endpointslices.discovery.k8s.io.
func (r Resource) Name() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

// Title returns the name, and that of the only object, as in configmaps/weather.
func (r Resource) Title() string {
	if r.Object == "" {
		return r.Name()
	}
	return r.Name() + "/" + r.Object
}

// String returns the title and the namespace.
func (r Resource) String() string {
	if r.Namespace == "" {
		return r.Title() + " in all namespaces"
	}
	return r.Title() + " in namespace " + r.Namespace
}
