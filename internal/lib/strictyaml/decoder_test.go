package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

type server struct {
	Listen  string        `yaml:"listen" required:""`
	Level   string        `yaml:"level" enum:"debug,info" default:"info"`
	Timeout time.Duration `yaml:"timeout" min:"1s" max:"1m" default:"5s"`
	Names   []string      `yaml:"names" unique:"true"`
	Retry   retry         `yaml:"retry"`
}

type retry struct {
	Share float64 `yaml:"share" scalar:"" min:"0" max:"1" default:"0.1"`
	Floor int     `yaml:"floor" min:"0" max:"100" default:"10"`
}

// Check checks that retries are possible.
func (r *retry) Check(at strictyaml.At) {
	if r.Share == 0 && at.Has("floor") {
		at.Fail("floor", "has no effect with share: 0")
	}
}

func decode(text string) (s server, err error) {
	d := &strictyaml.Decoder{Reader: strictyaml.Reader{File: "f.yaml"}}
	if root, ok := d.Document([]byte(text), "a server", "listen is required"); ok {
		d.Decode(root, &s)
	}
	return s, d.Err()
}

func Example() {
	s, err := decode("listen: here\nretry: 0.5\n")
	fmt.Printf("%+v %v\n", s, err)
	_, err = decode("levl: debug\nlevel: debgu\ntimeout: 5m\nnames: [a, b, a]\nretry: {share: 0, floor: 5, floor: 6}\n")
	fmt.Println(err)
	// Output:
	// {Listen:here Level:info Timeout:5s Names:[] Retry:{Share:0.5 Floor:10}} <nil>
	// f.yaml:1: levl: unknown field; did you mean "level"?
	// f.yaml:1: listen: required
	// f.yaml:2: level: "debgu" is not possible; it must be debug or info; did you mean "debug"?
	// f.yaml:3: timeout: "5m" is not possible; it must be a duration from 1s to 1m
	// f.yaml:4: names[2]: a is already at names[0], in line 4
	// f.yaml:5: retry.floor: given twice; the first is in line 5
	// f.yaml:5: retry.floor: has no effect with share: 0
}

// TestFill: a struct without a file gets the defaults of its empty fields, and keeps the others.
func TestFill(t *testing.T) {
	t.Parallel()
	type config struct {
		Wait  time.Duration `yaml:"wait" default:"5s"`
		Count int           `yaml:"count" default:"3"`
		Word  string        `yaml:"word" enum:"a,b" default:"b"`
		On    bool          `yaml:"on" default:"true"`
		Size  int64         `yaml:"size" kind:"size" default:"1GiB"`
		Other func()
	}
	got := config{Count: 4}
	strictyaml.Fill(&got)
	if got.Wait != 5*time.Second || got.Count != 4 || got.Word != "b" || got.On || got.Size != 0 {
		t.Errorf("%+v", got)
	}
}

// TestReadingStopsAfterManyErrors: the time that a file takes is not the product of its items and its errors.
func TestReadingStopsAfterManyErrors(t *testing.T) {
	t.Parallel()
	r := &strictyaml.Reader{File: "f.yaml"}
	root, ok := r.Document([]byte("["+strings.Repeat("{}, ", 100_000)+"]"), "a list", "one is required")
	if !ok {
		t.Fatal(r.Err())
	}
	read := 0
	r.List(func(at strictyaml.Place) {
		read++
		r.Missing(at, "listen", "required")
	})(root)
	last := r.Errors[len(r.Errors)-1]
	if read != len(r.Errors) || read > 1000 || !strings.Contains(last.Text, "may have more problems from here on") {
		t.Errorf("%d items were read, with %d errors; the last one: %v", read, len(r.Errors), last)
	}
}
