package settings

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// readHeaders reads a file of headers, "name: value" a line. Its errors repeat nothing: values
// are secrets.
func readHeaders(file string, files Files) (map[string]string, error) {
	text, err := files.Read(file)
	if err != nil {
		return nil, err
	}
	headers, err := parseHeaders(text)
	if err != nil {
		return nil, wrongFile(file, "%s: %w", file, err)
	}
	return headers, nil
}

// parseHeaders reads headers: name: value, one a line.
func parseHeaders(text []byte) (map[string]string, error) {
	headers := map[string]string{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(string(line), ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || value == "" || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) ||
			strings.HasPrefix(name, "grpc-") {
			return nil, fmt.Errorf("line %d is not a header; want name: value", n)
		}
		headers[name] = value
	}
	return headers, nil
}

// Headers implements upstream.Files.
func (f fleetFiles) Headers(file string, reserved func(string) bool) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	all, err := readHeaders(file, f.now)
	if err != nil {
		return nil, fmt.Errorf("headers_file: %w", err)
	}
	for name := range all {
		if reserved(name) {
			return nil, errors.New("the header " + name + " is one of the protocol's own; remove it")
		}
	}
	return all, nil
}
