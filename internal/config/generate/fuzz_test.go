package main

import (
	"fmt"
	"testing"
)

func FuzzSchemaAcceptsWhatTheDecoderAccepts(f *testing.F) {
	schema := compile(f)
	f.Add(full(f))
	for _, text := range odd {
		f.Add(fmt.Appendf(nil, "fleets: [{capability: a, backends: []}]\nzone: %s\ndrain: {delay: %s}\nlimits: "+
			"{messages: %s}\n", text, text, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if decoder, bySchema := judge(schema, data); decoder == nil && bySchema != nil {
			t.Errorf("%v\n%s", bySchema, data)
		}
	})
}
