package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
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

// errTooLarge is the error of a page beyond maxPage.
var errTooLarge = fmt.Errorf("a page is larger than %d bytes", maxPage)

// maxAgain bounds how often an expired list is restarted at once.
const maxAgain = 3

// list replaces the objects by those of the server, and returns their version. After an error nothing has changed.
func (m *Mirror[T]) list(ctx context.Context) (version string, err error) {
	next := map[Key]T{}
	limit, rest, again, large := m.o.PageSize, "", 0, false
	for {
		p, err := m.page(ctx, limit, rest)
		switch {
		case expired(err) && rest != "" && again < maxAgain: // the rest of the list has expired
			clear(next)
			rest = ""
			if again++; !large {
				limit = 0 // all of it in one page is consistent
			}
			continue
		case errors.Is(err, errTooLarge) && limit == 0:
			limit, large = m.o.PageSize, true
			continue
		case errors.Is(err, errTooLarge) && limit > 1:
			limit /= 2
			continue
		case err != nil:
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
	query := m.resource.query()
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if rest != "" {
		query.Set("continue", rest)
	}
	return readPage[T](ctx, m.client, m.resource, query, m.accept("PartialObjectMetadataList"))
}

// Find reads the only object of a resource, at a version or a later one. It returns nil if there is none.
func Find[T any](ctx context.Context, c *Client, r Resource, version string) (*T, error) {
	query := r.query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "NotOlderThan")
	p, err := readPage[T](ctx, c, r, query, wholeObjects)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r, err)
	}
	if len(p.Items) == 0 {
		return nil, nil
	}
	return &p.Items[0], nil
}

// readPage reads a page of objects.
func readPage[T any](ctx context.Context, c *Client, r Resource, query url.Values, accept string) (*page[T], error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	body, err := c.get(ctx, r.path(), query, accept)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxPage+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPage {
		return nil, errTooLarge
	}
	p := &page[T]{}
	if err = json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("a page is not a list of objects: %w", err)
	}
	return p, nil
}

// accept returns the media type of the mirrored objects. The kind is that of their metadata.
func (m *Mirror[T]) accept(kind string) string {
	if m.o.Metadata {
		return metadataOf(kind)
	}
	return wholeObjects
}
