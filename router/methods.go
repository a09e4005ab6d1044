package router

import "slices"

// HasMethod reports whether the configuration names a gRPC method, /package.Service/Method.
func (f *Fleet) HasMethod(path string) bool {
	return slices.ContainsFunc(f.cfg.Methods, func(m string) bool { return path[1:] == m })
}

// HasService reports whether the configuration names all methods of a service.
func (f *Fleet) HasService(service string) bool {
	return slices.Contains(f.cfg.Services, service) || slices.ContainsFunc(f.cfg.Methods, func(m string) bool {
		return len(m) == len(service)+len("/*") && m[:len(service)] == service && m[len(service):] == "/*"
	})
}
