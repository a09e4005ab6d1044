package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
)

// page is a part of a list.
type page[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// list replaces the objects by those of the server, and returns their version. After an error nothing has changed.
func (m *Mirror[T]) list(ctx context.Context) (version string, err error) {
	next := map[Key]T{}
	limit, rest := m.o.PageSize, ""
	for {
		p, err := m.page(ctx, limit, rest)
		if expired(err) && rest != "" { // the rest of the list has expired: all of it in one page is consistent
			clear(next)
			limit, rest = 0, ""
			continue
		}
		if err != nil {
			return "", fmt.Errorf("list %s: %w", m.resource, err)
		}
		for i := range p.Items {
			meta := m.meta(&p.Items[i])
			if err = meta.trim(&m.o); err != nil {
				return "", fmt.Errorf("list %s: %w", m.resource, err)
			}
			next[meta.Key()] = p.Items[i]
		}
		if len(next) > m.o.MaxObjects {
			return "", m.tooMany()
		}
		if rest = p.Metadata.Continue; rest == "" {
			version = p.Metadata.ResourceVersion
			break
		}
	}
	if version == "" || version == "0" {
		return "", fmt.Errorf("list %s: the response has no version", m.resource)
	}
	m.replace(next)
	return version, nil
}

// tooMany returns the error of a resource with too many objects.
func (m *Mirror[T]) tooMany() error {
	return fmt.Errorf("%s: more than %d objects; watch fewer namespaces", m.resource, m.o.MaxObjects)
}

// page reads a page of at most limit objects, or all that remain if limit is 0.
func (m *Mirror[T]) page(ctx context.Context, limit int, rest string) (*page[T], error) {
	ctx, cancel := context.WithTimeout(ctx, m.client.config.Timeout)
	defer cancel()
	query := m.query()
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if rest != "" {
		query.Set("continue", rest)
	}
	body, err := m.client.get(ctx, m.resource.path(), query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxPage+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPage {
		return nil, fmt.Errorf("a page is larger than %d bytes", maxPage)
	}
	p := &page[T]{}
	if err = json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("a page is not a list of objects: %w", err)
	}
	return p, nil
}

// query returns the parameters of every request.
func (m *Mirror[T]) query() url.Values {
	query := url.Values{}
	if m.resource.Selector != "" {
		query.Set("labelSelector", m.resource.Selector)
	}
	if m.resource.Object != "" {
		query.Set("fieldSelector", "metadata.name="+m.resource.Object)
	}
	return query
}
