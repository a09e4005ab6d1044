package dialect_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// frames are messages as gRPC sends them.
func frames(tb testing.TB, messages ...proto.Message) []byte {
	tb.Helper()
	var all []byte
	for _, m := range messages {
		b, err := proto.Marshal(m)
		check.Must(tb, err)
		all = binary.BigEndian.AppendUint32(append(all, 0), uint32(len(b)))
		all = append(all, b...)
	}
	return all
}

// mentioned returns the mentions in a response that arrives in pieces of the given size.
func mentioned(tb testing.TB, m call.Method, d call.Dialect, response []byte, size int) (ids []string,
	outcome dialect.Outcome) {
	tb.Helper()
	var s dialect.Scanner
	if !s.Reset(m, d) {
		tb.Fatal("nothing to scan")
	}
	ms := dialect.NewMentions(func(id string) { ids = append(ids, id) })
	ms.Reset(m)
	s.Watch(ms)
	for piece := range slices.Chunk(response, size) {
		s.Body(piece)
	}
	return ids, s.Outcome()
}

func TestMentions(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`{"capability_artifact_id":"x"},`, 100)
	for name, test := range map[string]struct {
		result string
		want   []string
	}{
		"none":  {`{"a":1}`, nil},
		"empty": {``, nil},
		"one":   {`{"artifact":{"capability_artifact_id":"file-1"}}`, []string{"file-1"}},
		"several": {`{"artifacts":[{"capability_artifact_id":"a"},{"name":"x","capability_artifact_id" : "b"}]}`,
			[]string{"a", "b"}},
		"white space": {"{\"capability_artifact_id\"\n\t:\r\n \"a\"}", []string{"a"}},
		"escapes":     {`{"capability_artifact_id":"a\"b\\c\u00fc\/"}`, []string{`a"b\cü/`}},
		"null":        {`{"capability_artifact_id":null,"x":"y"}`, nil},
		"a number":    {`{"capability_artifact_id":17}`, nil},
		"empty id":    {`{"capability_artifact_id":""}`, nil},
		"a value": {`["capability_artifact_id","capability_artifact_id",{"capability_artifact_id":"a"}]`,
			[]string{"a"}},
		"inside a string": {`{"text":"{\"capability_artifact_id\":\"a\"}"}`, nil},
		"another name":    {`{"my_capability_artifact_id":"a","capability_artifact_ids":"b"}`, nil},
		"a bad escape":    {`{"capability_artifact_id":"\x"},{"capability_artifact_id":"b"}`, []string{"b"}},
		"longest": {`{"capability_artifact_id":"` + strings.Repeat("a", 512) + `"}`,
			[]string{strings.Repeat("a", 512)}},
		"too long": {`{"capability_artifact_id":"` + strings.Repeat("a", 513) + `"}, {"capability_artifact_id":"b"}`,
			[]string{"b"}},
		"far too long": {`{"capability_artifact_id":"` + strings.Repeat("a", 5000) +
			`"}, {"capability_artifact_id":"b"}`, []string{"b"}},
		"no end":           {`{"capability_artifact_id":"a`, nil},
		"too many":         {"[" + many, slices.Repeat([]string{"x"}, 64)},
		"starts and stops": {`{"capability_a":"capability_artifact_i","capability_artifact_id":"a"`, []string{"a"}},
		"far away": {strings.Repeat(`"capability_artifact_i"`, 1000) + `"capability_artifact_id":"a"`,
			[]string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			half := len(test.result) / 2
			for what, response := range map[call.Method][]byte{
				call.Invoke: frames(t, &docpb.InvokeResponse{ResultJson: []byte(test.result)}),
				call.StreamInvoke: frames(t, &docpb.InvokeChunk{Data: []byte(test.result[:half])}, &docpb.InvokeChunk{},
					&docpb.InvokeChunk{Data: []byte(test.result[half:]), Done: true}),
			} {
				for _, size := range []int{1, 2, 3, 7, 22, 23, 24, 25, 64, 1 << 20} {
					ids, outcome := mentioned(t, what, call.Doc, response, size)
					if !slices.Equal(ids, test.want) || outcome != dialect.OK {
						t.Errorf("%v in pieces of %d: %.80q, %v", what, size, ids, outcome)
					}
				}
			}
			ids := dialect.Named([]byte(test.result))
			if want := slices.Compact(slices.Clone(test.want)); !slices.Equal(ids, want) {
				t.Errorf("as arguments: %.80q", ids)
			}
		})
	}
}

// TestMentionsAreReset: a response does not go on where the one before broke off.
func TestMentionsAreReset(t *testing.T) {
	t.Parallel()
	const quoted = `"capability_artifact_id":"a"`
	for cut := range len(quoted) {
		var ids []string
		ms := dialect.NewMentions(func(id string) { ids = append(ids, id) })
		for _, response := range [][]byte{
			frames(t, &docpb.InvokeResponse{ResultJson: []byte(quoted[:cut])}),
			frames(t, &docpb.InvokeResponse{ResultJson: []byte(quoted[cut:])}),
		} {
			var s dialect.Scanner
			s.Reset(call.Invoke, call.Doc)
			ms.Reset(call.Invoke)
			s.Watch(ms)
			s.Body(response)
		}
		if cut > 0 && ids != nil {
			t.Errorf("of %q and %q: %q", quoted[:cut], quoted[cut:], ids)
		}
	}
}

func TestMentionsOfUploads(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a", "file-1", strings.Repeat("x", 512), strings.Repeat("x", 513)} {
		var want []string
		if id != "" && len(id) <= 512 {
			want = []string{id}
		}
		for d, response := range map[call.Dialect][]byte{
			call.Doc:  frames(t, &docpb.UploadInputArtifactResponse{CapabilityArtifactId: id}),
			call.Live: frames(t, &livepb.UploadInputArtifactResponse{CapabilityArtifactId: id, SizeBytes: 7}),
		} {
			for _, size := range []int{1, 3, 1 << 20} {
				if ids, outcome := mentioned(t, call.UploadInputArtifact, d, response, size); !slices.Equal(ids,
					want) || outcome != dialect.OK {
					t.Errorf("%v, %d bytes in pieces of %d: %.40q, %v", d, len(id), size, ids, outcome)
				}
			}
		}
	}
}

// A compressed message cannot be read, and errors and other fields are not looked at.
func TestMentionsLookOnlyAtThePayload(t *testing.T) {
	t.Parallel()
	quoted := `"capability_artifact_id":"a"`
	packed := frames(t, &docpb.InvokeResponse{ResultJson: []byte(quoted)})
	packed[0] = 1
	for what, response := range map[string][]byte{
		"compressed":    packed,
		"the error":     frames(t, &docpb.InvokeResponse{Error: quoted}),
		"another field": append([]byte{0, 0, 0, 0, byte(2 + len(quoted))}, str(7, quoted)...),
		"a group's field": append([]byte{0, 0, 0, 0, byte(4 + len(quoted))},
			wire(tag(8, 3), str(1, quoted), tag(8, 4))...),
	} {
		if ids, _ := mentioned(t, call.Invoke, call.Doc, response, 5); ids != nil {
			t.Errorf("%s: %q", what, ids)
		}
	}
}

func TestNamed(t *testing.T) {
	var args strings.Builder
	for i := range 20 {
		fmt.Fprintf(&args, `{"capability_artifact_id":"%d"},{"capability_artifact_id":"0"},`, i)
	}
	if ids := dialect.Named([]byte(args.String())); !slices.Equal(ids,
		[]string{"0", "1", "2", "3", "4", "5", "6", "7"}) {
		t.Errorf("%q", ids)
	}
	plain := []byte(`{"attachments":[{"artifact_id":"x"}]}`)
	if n := testing.AllocsPerRun(100, func() { dialect.Named(plain) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReadArtifactID(t *testing.T) {
	t.Parallel()
	id, err := dialect.ReadArtifactID(wire(varint(9, 1), str(1, "file-1"), str(2, "\xff")))
	if string(id) != "file-1" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	for name, msg := range map[string][]byte{
		"cut off": {0x0a, 5, 'x'}, "twice": wire(str(1, "a"), str(1, "b")), "a varint": varint(1, 3),
		"not UTF-8": str(1, "\xff"),
	} {
		if _, err := dialect.ReadArtifactID(msg); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// However a response is cut, the same is found.
func FuzzMentions(f *testing.F) {
	f.Add([]byte(`{"artifact":{"capability_artifact_id":"a\"b"}}`), uint8(3))
	f.Add([]byte(`"capability_artifact_id"capability_artifact_id":"x"`), uint8(1))
	f.Fuzz(func(t *testing.T, result []byte, size uint8) {
		whole, _ := mentioned(t, call.Invoke, call.Doc, frames(t, &docpb.InvokeResponse{ResultJson: result}), 1<<20)
		cut, _ := mentioned(t, call.Invoke, call.Doc, frames(t, &docpb.InvokeResponse{ResultJson: result}), int(size)+1)
		if !slices.Equal(whole, cut) {
			t.Errorf("%q and %q", whole, cut)
		}
	})
}

func TestNamedAll(t *testing.T) {
	many := func(n int) string {
		var args strings.Builder
		for i := range n {
			fmt.Fprintf(&args, `{"capability_artifact_id":"%d"},{"capability_artifact_id":"0"},`, i)
		}
		return "[" + args.String() + "0]"
	}
	in16 := func(text string) string {
		var b strings.Builder
		for _, c := range text {
			b.WriteRune(c)
			b.WriteByte(0)
		}
		return b.String()
	}
	const named, ambiguous = "named", "ambiguous"
	for name, test := range map[string]struct {
		args string
		want int
		err  string
	}{
		"none":              {`{"a":"\u0061"}`, 0, ""},
		"nothing":           {``, 0, ""},
		"no JSON":           {`text of any kind`, 0, ""},
		"one":               {`{"capability_artifact_id":"0"}`, 1, ""},
		"in another case":   {`{"Capability_Artifact_ID":"0"}`, 1, ""},
		"escaped":           {`{"\u0063apability_artifact_i\u0064":"0","b":"capability\u005Fartifact_id"}`, 1, ""},
		"wholly escaped":    {`{"` + escaped("capability_artifact_id") + `":"` + escaped("0") + `"}`, 1, ""},
		"a backslash":       {`{"\\u0063apability_artifact_id":"0"}`, 0, ""},
		"in a string":       {`{"x":"{\"capability_artifact_id\":\"0\"}"}`, 1, ""},
		"a list of them":    {`{"capability_artifact_id":["0","00",{"x":"000"}]}`, 3, ""},
		"a number":          {`{"capability_artifact_id":0}`, 1, ""},
		"null":              {`{"capability_artifact_id":null}`, 0, ""},
		"after a quote":     {`{"x":"\u0061\"","capability_artifact_id":"0","y":"\u00e9"}`, 1, ""},
		"as many as may":    {many(64), 64, ""},
		"too many":          {many(65), 64, named},
		"the longest":       {`{"capability_artifact_id":"` + escaped(strings.Repeat("0", 512)) + `"}`, 1, ""},
		"too long":          {`{"capability_artifact_id":"` + strings.Repeat("0", 513) + `"}`, 0, named},
		"far too long":      {`{"capability_artifact_id":"` + strings.Repeat("0", 5000) + `"}`, 0, named},
		"twice":             {`{"capability_artifact_id":"0","capability_artifact_id":"00"}`, 0, ambiguous},
		"UTF-16":            {in16(`{"capability_artifact_id":"0"}`), 0, ambiguous},
		"UTF-32":            {in16(in16(`{"x":"0"}`)), 0, ambiguous},
		"a byte order mark": {"\ufeff" + `{"capability_artifact_id":"0"}`, 0, ambiguous},
		"half a character":  {`{"capability_artifact_id":"\ud800"}`, 0, ambiguous},
		"two texts":         {`{}{"capability_artifact_id":"0"}`, 0, ambiguous},
		"an escape's end":   {`{"capability_artifact_id":"0"}\`, 0, ambiguous},
		"in Python's words": {`{'capability_artifact_id':'0'}`, 0, "JSON"},
	} {
		ids, err := dialect.NamedAll([]byte(test.args))
		var text *strictjson.Error
		got := ""
		switch {
		case errors.Is(err, dialect.ErrNamed):
			got = named
		case errors.As(err, &text) && text.Ambiguous:
			got = ambiguous
		case err != nil:
			got = "JSON"
		}
		if len(ids) != test.want || got != test.err || len(ids) > 0 && strings.Trim(ids[0], "0") != "" {
			t.Errorf("%s: %.80q, %v", name, ids, err)
		}
	}
	plain := []byte(`{"attachments":[{"artifact_id":"x"}]}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = dialect.NamedAll(plain) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNamedInContext(t *testing.T) {
	t.Parallel()
	entry := func(name, value string) []dialect.ContextEntry {
		return []dialect.ContextEntry{{Name: []byte("x"), Value: []byte(`C:\users`)},
			{Name: []byte(name), Value: []byte(value)}}
	}
	for _, test := range []struct {
		entries []dialect.ContextEntry
		want    int
		fails   bool
	}{
		{entry("Capability_artifact_id", "0"), 1, false},
		{entry("files", ` [{"capability_artifact_id":"0"}]`), 1, false},
		{entry("files", `[{"capability_artifact_id":"0","capability_artifact_id":"1"}]`), 0, true},
		{entry("note", `the capability_artifact_id is 0`), 0, false},
	} {
		ids, err := dialect.NamedInContext(test.entries)
		if len(ids) != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v", test.entries[1], ids, err)
		}
	}
}

// escaped returns a text with all its characters, which are ASCII, as JSON may write them.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

// Where all mentions count, short messages that gzip packed are looked into, up to a bound.
func TestMentionsInPackedMessages(t *testing.T) {
	t.Parallel()
	quoted := `{"capability_artifact_id":"a"}`
	long := strings.Repeat(" ", 256<<10)
	noise := make([]byte, 17<<10)
	_, _ = rand.Read(noise)
	for name, test := range map[string]struct {
		message proto.Message
		want    []string
	}{
		"an id":     {&docpb.InvokeResponse{ResultJson: []byte(quoted)}, []string{"a"}},
		"early":     {&docpb.InvokeResponse{ResultJson: []byte(quoted + long)}, []string{"a"}},
		"late":      {&docpb.InvokeResponse{ResultJson: []byte(long + quoted)}, nil},
		"too long":  {&docpb.InvokeResponse{ResultJson: []byte(quoted + string(noise))}, nil},
		"the error": {&docpb.InvokeResponse{Error: quoted}, nil},
	} {
		plain, err := proto.Marshal(test.message)
		check.Must(t, err)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(plain)
		_ = w.Close()
		response := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(packed.Len())), packed.Bytes()...)
		response = append(response, 1, 0, 0, 0, 2, 'n', 'o') // no gzip
		response = append(response, frames(t,
			&docpb.InvokeResponse{ResultJson: []byte(`{"capability_artifact_id":"b"}`)})...)
		for _, size := range []int{1, 7, 1 << 20} {
			var s dialect.Scanner
			var ids []string
			s.Reset(call.Invoke, call.Doc)
			ms := dialect.NewMentions(func(id string) { ids = append(ids, id) })
			ms.Reset(call.Invoke)
			ms.All()
			s.Watch(ms)
			for piece := range slices.Chunk(response, size) {
				s.Body(piece)
			}
			if want := append(test.want, "b"); !slices.Equal(ids, want) || s.Outcome() != dialect.OutcomeUnknown {
				t.Errorf("%s in pieces of %d: %q, %v", name, size, ids, s.Outcome())
			}
		}
	}
}
