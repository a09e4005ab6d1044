package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/openapi"
)

// TestDocumentsOfCallersAreApart: a document has the caller's own tools, and reports whether they are complete.
func TestDocumentsOfCallersAreApart(t *testing.T) {
	t.Parallel()
	d := documents(t)
	one := []openapi.Capability{{ID: "one", Tools: []openapi.Tool{{Name: "a/b"}}}}
	first, err := d.Write(one, false)
	check.Must(t, err)
	at(t, object(t, first), "paths", "/v1/capabilities/one/tools/a%2Fb", "post")
	second, err := d.Write(nil, true)
	check.Must(t, err)
	if strings.Contains(string(second), "one_a_b") || strings.Contains(string(second), "capabilities/one/") {
		t.Errorf("the second document has tools of the first: %s", second)
	}
	if object(t, second)["x-capgate-left-out"] != true {
		t.Error("the second document does not say that the caller has more tools")
	}
}

// TestDocumentsWithoutKeys: a gateway that asks for no credential describes none, under a version of its own.
func TestDocumentsWithoutKeys(t *testing.T) {
	t.Parallel()
	keyed := documents(t)
	open := keyed.WithoutKeys()
	if open.Version() == keyed.Version() {
		t.Errorf("both documents have the version %s", open.Version())
	}
	for _, test := range []struct {
		of      *openapi.Documents
		schemes int
	}{{open, 0}, {keyed, 3}} {
		text, err := test.of.Write(nil, false)
		check.Must(t, err)
		doc := object(t, text)
		security, _ := doc["security"].([]any)
		components, _ := at(t, doc, "components").(map[string]any)
		if _, described := components["securitySchemes"]; len(security) != test.schemes ||
			described != (test.schemes > 0) {
			t.Errorf("security %v, schemes described: %v", security, described)
		}
	}
}

// TestCommentsOfAuthorsStayOut: $comment is for the authors of a schema.
func TestCommentsOfAuthorsStayOut(t *testing.T) {
	t.Parallel()
	doc := write(t, `{"type":"object","$comment":"internal","properties":{"n":{"$comment":"internal","type":"null"}}}`)
	if text := at(t, doc, "components", "schemas", "c_t"); strings.Contains(fmt.Sprint(text), "internal") {
		t.Errorf("%v", text)
	}
}
