package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serve responds to a request for a list or a watch.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	plural, namespace, known := resourceOf(r.URL.Path)
	verb := "list"
	if r.URL.Query().Get("watch") == "true" {
		verb = "watch"
	}
	s.mu.Lock()
	s.requests[verb+" "+plural]++
	s.queries[plural] = append(s.queries[plural], r.URL.Query())
	away, delay, cut := s.away, s.delay, s.cut
	authorized := r.Header.Get("Authorization") == "Bearer "+s.token
	denied := s.denied[verb+" "+plural]
	s.mu.Unlock()
	defer func() {
		select {
		case s.arrived <- struct{}{}:
		default:
		}
	}()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		case <-cut:
		}
	}
	switch {
	case away:
		panic(http.ErrAbortHandler)
	case !authorized:
		refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case !known || r.Method != http.MethodGet:
		refuse(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	case denied:
		refuse(w, http.StatusForbidden, "Forbidden", forbidden(verb, plural, namespace))
	case verb == "watch":
		s.watch(w, r, plural, namespace, cut)
	default:
		s.list(w, r, plural, namespace)
	}
}

// resourceOf splits a path. Namespace "" means all.
func resourceOf(path string) (plural, namespace string, known bool) {
	for _, prefix := range []string{"/apis/discovery.k8s.io/v1/", "/api/v1/"} {
		rest, is := strings.CutPrefix(path, prefix)
		if !is {
			continue
		}
		if in, is := strings.CutPrefix(rest, "namespaces/"); is {
			namespace, rest, _ = strings.Cut(in, "/")
		}
		core := rest == "services" || rest == "configmaps"
		return rest, namespace, core == (prefix == "/api/v1/") && (core || rest == "endpointslices")
	}
	return "", "", false
}

// kinds are the kinds of objects by resource, with their groups and versions.
var kinds = map[string]struct{ kind, group, version string }{ //nolint:gochecknoglobals // a table
	EndpointSlices: {"EndpointSlice", "discovery.k8s.io", "discovery.k8s.io/v1"},
	Services:       {"Service", "", "v1"},
	"configmaps":   {"ConfigMap", "", "v1"},
}

// forbidden returns the message about a role without a verb.
func forbidden(verb, plural, namespace string) string {
	group, name, where := kinds[plural].group, plural, "at the cluster scope"
	if group != "" {
		name += "." + group
	}
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	return fmt.Sprintf(`%s is forbidden: User "system:serviceaccount:capgate:capgate" cannot %s resource %q in API `+
		"group %q %s", name, verb, plural, group, where)
}

// refuse responds with a metav1.Status.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	respond(w, code, statusOf(code, reason, message))
}

// respond responds with an object.
func respond(w http.ResponseWriter, code int, object Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client may be gone
}

func statusOf(code int, reason, message string) Object {
	return Object{"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure", "message": message,
		"reason": reason, "code": code}
}

// Messages about versions that have expired.
const (
	expiredText     = "too old resource version: %d (%d)"
	expiredPageText = "The provided continue parameter is too old to display a consistent list result. You can " +
		"start a new list without the continue parameter, or use the continue token in this response to retrieve the " +
		"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
		"were created, modified, or deleted between the time the first chunk was returned and now may show up in " +
		"the list."
)

// list responds with a page. The continue token has the version of the list and the last key of the page.
func (s *Server) list(w http.ResponseWriter, r *http.Request, plural, namespace string) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	s.mu.Lock()
	defer s.mu.Unlock()
	version, after := s.version, ""
	if rest := query.Get("continue"); rest != "" {
		at, key, _ := strings.Cut(rest, "|")
		version, _ = strconv.Atoi(at)
		if after = key; version < s.oldest || s.brief {
			s.brief = false
			status := statusOf(http.StatusGone, "Expired", expiredPageText)
			status["metadata"] = Object{"continue": fmt.Sprintf("%d|%s", s.version, key)}
			respond(w, http.StatusGone, status)
			return
		}
	}
	at := s.at(version)
	var keys []string
	for key, object := range at {
		if strings.HasPrefix(key, plural+"/"+namespace) && (namespace == "" || strings.HasPrefix(key, plural+"/"+
			namespace+"/")) && key > after && named(key, query.Get("fieldSelector")) &&
			selected(object, query.Get("labelSelector")) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	meta := Object{"resourceVersion": strconv.Itoa(version)}
	if limit > 0 && len(keys) > limit {
		keys = keys[:limit]
		meta["continue"] = fmt.Sprintf("%d|%s", version, keys[limit-1])
	}
	items, partial := []Object{}, onlyMetadata(r)
	for _, key := range keys {
		item := maps.Clone(at[key])
		delete(item, "kind")
		delete(item, "apiVersion")
		if partial {
			item = metadataOf(item)
		}
		items = append(items, item)
	}
	list := Object{"kind": kinds[plural].kind + "List", "apiVersion": kinds[plural].version, "metadata": meta,
		"items": items}
	if partial {
		list["kind"], list["apiVersion"] = "PartialObjectMetadataList", metadataVersion
	}
	respond(w, http.StatusOK, list)
}

// metadataVersion is the version of the kinds with only metadata.
const metadataVersion = "meta.k8s.io/v1"

// onlyMetadata reports whether a request is for the metadata of objects.
func onlyMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// metadataOf returns the metadata of an object.
func metadataOf(o Object) Object {
	return Object{"kind": "PartialObjectMetadata", "apiVersion": metadataVersion, "metadata": o["metadata"]}
}

// at returns the objects as they were at a version. The caller holds s.mu.
func (s *Server) at(version int) map[string]Object {
	all := map[string]Object{}
	for _, c := range s.events {
		switch {
		case c.version > version || c.kind == "BOOKMARK":
		case c.kind == "DELETED":
			delete(all, c.key)
		default:
			all[c.key] = c.object
		}
	}
	return all
}

// selected reports whether the labels of an object match a list of equalities.
func selected(object Object, selector string) bool {
	if selector == "" {
		return true
	}
	labels, _ := object["metadata"].(Object)["labels"].(Object)
	for _, term := range strings.Split(selector, ",") {
		name, value, equal := strings.Cut(term, "=")
		got, is := labels[name]
		if !is || equal && got != value {
			return false
		}
	}
	return true
}

// named reports whether an object with a key has the name that a field selector requires.
func named(key, selector string) bool {
	name, only := strings.CutPrefix(selector, "metadata.name=")
	return !only || strings.HasSuffix(key, "/"+name)
}

// as returns the kind of an event for a watch with a selector: an object whose labels no longer match is deleted. It
// returns "" if the watch does not have the object.
func (c *change) as(selector string) string {
	is, was := selected(c.object, selector), c.before != nil && selected(c.before, selector)
	switch {
	case c.kind == "DELETED" && was, is && was:
		return c.kind
	case c.kind == "DELETED":
		return ""
	case is:
		return "ADDED"
	case was:
		return "DELETED"
	}
	return ""
}

// event returns the event for a change in a watch, or "" if there is none.
func (c *change) event(plural, namespace string, query url.Values) (kind string, object Object) {
	switch {
	case c.kind == "BOOKMARK" && query.Get("allowWatchBookmarks") == "true":
		return c.kind, Object{"kind": kinds[plural].kind, "apiVersion": kinds[plural].version,
			"metadata": Object{"resourceVersion": strconv.Itoa(c.version), "creationTimestamp": nil}}
	case c.plural == plural && (namespace == "" || c.in == namespace) && named(c.key, query.Get("fieldSelector")):
		return c.as(query.Get("labelSelector")), c.object
	}
	return "", nil
}

// watch sends the events after a version, until the watch times out, it is cut, or the client leaves.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, plural, namespace string, cut <-chan struct{}) {
	query := r.URL.Query()
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	s.mu.Lock()
	old, how, message := from < s.oldest, s.expiring, fmt.Sprintf(expiredText, from, s.oldest)
	next, ending := 0, s.over
	s.watches++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.watches--
		s.mu.Unlock()
	}()
	if old && how == AsStatus {
		refuse(w, http.StatusGone, "Expired", message)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	send := func(kind string, object Object) {
		if onlyMetadata(r) && kind != "ERROR" {
			object = metadataOf(object)
		}
		_ = out.Encode(Object{"type": kind, "object": object}) // the client may be gone
	}
	flush := http.NewResponseController(w)
	if old {
		send("ERROR", statusOf(http.StatusGone, "Expired", message))
		return
	}
	over := time.After(time.Duration(seconds) * time.Second)
	for ended := false; ; {
		s.mu.Lock()
		pending, wake := s.events[next:], s.changed
		next = len(s.events)
		s.mu.Unlock()
		for _, c := range pending {
			if c.version <= from {
				continue
			}
			if kind, object := c.event(plural, namespace, query); kind != "" {
				send(kind, object)
			}
		}
		_ = flush.Flush()
		if ended {
			return
		}
		select {
		case <-wake:
		case <-over:
			ended = true
		case <-ending:
			ended = true
		case <-cut:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
	}
}
