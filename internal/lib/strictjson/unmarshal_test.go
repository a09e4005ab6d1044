package strictjson_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestKinds: each method of a Value works with a value of any kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`: "0 [] [] 0 0 false", `[1,[2],{"a":3}]`: "3 [] [1,[2],{\"a\":3}] 3 0 false", `{}`: "0 [] {} 0 0 false",
		`{"a":[]}`: "1 [] {\"a\":[]} 0 1 true", `null`: "0 []  0 0 false", `true`: "0 []  0 0 false",
		`12`: "0 [12]  0 0 false", `"x{}"`: "0 [x{}]  0 0 false", `"\u0041"`: "0 [A]  0 0 false",
	} {
		var r strictjson.Reader
		check.Must(t, r.Read([]byte("  "+text+" "), strictjson.Options{Keep: true}))
		v, elements, members := r.Root(), 0, 0
		for range v.Elements() {
			elements++
		}
		for range v.Members() {
			members++
		}
		_, has := v.Get("a")
		if got := fmt.Sprintf("%d [%s] %s %d %d %t", v.Len(), v.Bytes(), v.Raw(), elements, members, has); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestUnmarshal: a field has one name, and a text one reading.
func TestUnmarshal(t *testing.T) {
	t.Parallel()
	type fields struct {
		Name string `json:"name"`
		In   *struct {
			N int `json:"n"`
		} `json:"in"`
	}
	for text, want := range map[string]string{
		`{"name":"a","in":{"n":1}}`: "a 1 true true", `{"name":"a","Name":"b","NAME":"c"}`: "a 0 true false",
		`{"Name":"b"}`: " 0 true false", `{"name":"a","in":{"N":1}}`: "a 0 true false",
		`{"name":"a","more":1}`: "a 0 true false", `{"name":"a","name":"a"}`: " 0 false false",
		`{"name":"a"}{}`: " 0 false false", `{"name":1}`: " 0 false false", ``: " 0 false false",
	} {
		var all, known fields
		read, onlyKnown := strictjson.Unmarshal([]byte(text), &all) == nil,
			strictjson.UnmarshalKnown([]byte(text), &known) == nil
		n := 0
		if all.In != nil {
			n = all.In.N
		}
		if got := fmt.Sprintf("%s %d %t %t", all.Name, n, read, onlyKnown); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
