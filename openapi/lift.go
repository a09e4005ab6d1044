package openapi

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

const defsKeyword = "$defs"

// lift moves the definitions in a converted schema at a pointer to components: many generators of clients follow
// references to components alone, or make no types of what is below one.
func (s *converter) lift(v any, at string, parts map[string]any, taken names) {
	of, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, keyword := range slices.Sorted(maps.Keys(of)) {
		below := at + "/" + escape(keyword)
		switch keywords[keyword] {
		case schema:
			s.lift(of[keyword], below, parts, taken)
		case schemas:
			all, _ := of[keyword].([]any)
			for i, child := range all {
				s.lift(child, below+"/"+strconv.Itoa(i), parts, taken)
			}
		case schemaMap:
			all, _ := of[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				child := below + "/" + escape(name)
				if keyword == defsKeyword {
					s.moved[child] = taken.of(s.component, name)
					parts[s.moved[child]] = all[name]
				}
				s.lift(all[name], child, parts, taken)
			}
		}
	}
	delete(of, defsKeyword)
}

// target returns the component that has a pointer of the schema, and the pointer in that component.
func (s *converter) target(pointer string) (component, rest string) {
	for end := len(pointer); end > 0; end = strings.LastIndexByte(pointer[:end], '/') {
		if name, ok := s.moved[pointer[:end]]; ok {
			return name, pointer[end:]
		}
	}
	return s.component, pointer
}
