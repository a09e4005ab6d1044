package manifest_test

import (
	"encoding/json"
	"testing"

	"github.com/capgate/capgate/internal/manifest"
)

// TestAudiencesOfTools: a tool is for models and for apps, unless its _meta says otherwise.
func TestAudiencesOfTools(t *testing.T) {
	t.Parallel()
	for meta, want := range map[string][2]bool{ // for models, for apps
		`{"ui":{"visibility":["app"]}}`:            {false, true},
		`{"ui":{"visibility":["model"]}}`:          {true, false},
		`{"ui":{"visibility":["app","model"]}}`:    {true, true},
		`{"ui":{"visibility":[]}}`:                 {false, false},
		`{"\u0075i":{"visib\u0069lity":["app"]}}`:  {false, true},
		`{"ui":{"visibility":null}}`:               {true, true},
		`{"ui":{"visibility":"app"}}`:              {true, true},
		`{"ui":{"visibility":[1]}}`:                {true, true},
		`{"ui":{}}`:                                {true, true},
		``:                                         {true, true},
		`{"other":{"visibility":["app"]}}`:         {true, true},
		`{"ui":{"ui":{"visibility":["app"]}}}`:     {true, true},
		`{"Ui":{"visibility":["app"]},"uI":"\\u"}`: {true, true},
	} {
		e := (&manifest.Extras{Meta: json.RawMessage(meta)}).Sound()
		if got := [2]bool{e.ForModels(), e.ForApps()}; got != want {
			t.Errorf("%s: %v, want %v", meta, got, want)
		}
	}
}
