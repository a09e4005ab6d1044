package peek_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

func newReader(memory int64) *peek.Reader { return newReaderOf(fairshare.New("inflating", memory)) }

func newReaderOf(memory *fairshare.Pool) *peek.Reader {
	table, err := router.NewTable(router.Config{}, nil)
	if err != nil {
		panic(err)
	}
	return peek.NewReader(peek.Config{
		MaxMessage: 1 << 20, Memory: memory, Tables: router.New(table),
		ReadsMessages: func(string) bool { return true },
	})
}

func message() []byte {
	msg, err := proto.Marshal(&docpb.InvokeRequest{CapabilityId: "mail", ToolName: "send", ArgsJson: []byte("{}")})
	if err != nil {
		panic(err)
	}
	return msg
}

func packed(msg []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(msg)
	_ = w.Close()
	return b.Bytes()
}

// TestCompressed: a compressed message is decompressed while its call waits, if there is memory for it.
func TestCompressed(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{1 << 20, 1} {
		r := newReader(memory)
		f, s := r.With(peek.ReadInvoke), &peek.State{}
		c, stream := filtertest.NewCall("grpc-encoding", "gzip")
		f.Admit(c, s)
		c.Message = relay.Message{Data: packed(message()), Compressed: true}
		step := f.Admit(c, s)
		if memory == 1 {
			if step != filter.Stop || c.Shed != overload.Pools {
				t.Errorf("step %d, shed %q", step, c.Shed)
			}
			continue
		}
		check.Received(t, stream.Resumed, "the resumption")
		if step = f.Admit(c, s); step != filter.Continue || c.Info.Tool != "send" || c.Fields().Capability != "mail" {
			t.Errorf("step %d, %+v", step, c.Fields())
		}
		r.Close()
	}
}

// TestUnpackingEnds: the memory for decompressing a message is released afterwards. A message for which there is none
// takes none.
func TestUnpackingEnds(t *testing.T) {
	t.Parallel()
	const rounds = 100 // more messages than are decompressed at once
	msg := packed(message())
	for _, memory := range []int64{1 << 20, 1} {
		pool := fairshare.New("inflating", memory)
		r := newReaderOf(pool)
		for range rounds {
			f, s := r.With(peek.ReadInvoke), &peek.State{}
			c, stream := filtertest.NewCall("grpc-encoding", "gzip")
			f.Admit(c, s)
			c.Message = relay.Message{Data: msg, Compressed: true}
			step := f.Admit(c, s)
			if (step == filter.Wait) != (memory > 1) || (c.Shed == overload.Pools) != (memory == 1) {
				t.Fatalf("step %d, shed %q, %+v", step, c.Shed, c.Answer().Refusal)
			}
			if memory > 1 {
				check.Received(t, stream.Resumed, "the resumption")
			}
		}
		if r.Close(); pool.Used() != 0 {
			t.Errorf("%d bytes are held", pool.Used())
		}
	}
}

// TestUnpackedCopy: a message is decompressed from a copy, because its connection reuses the memory as soon as the call
// waits.
func TestUnpackedCopy(t *testing.T) {
	t.Parallel()
	args := make([]byte, 1<<17)
	_, _ = rand.NewChaCha8([32]byte{}).Read(args) // never fails
	msg, err := proto.Marshal(&docpb.InvokeRequest{CapabilityId: "mail", ToolName: "send", ArgsJson: args})
	check.Must(t, err)
	r := newReader(8 << 20)
	defer r.Close()
	f, s := r.With(peek.ReadInvoke), &peek.State{}
	c, stream := filtertest.NewCall("grpc-encoding", "gzip")
	f.Admit(c, s)
	c.Message = relay.Message{Data: packed(msg), Compressed: true}
	buffer := c.Message.Data
	f.Admit(c, s)
	clear(buffer)
	check.Received(t, stream.Resumed, "the resumption")
	if step := f.Admit(c, s); step != filter.Continue || !bytes.Equal(c.Fields().Args, args) {
		t.Errorf("step %d, %d bytes of arguments, %+v", step, len(c.Fields().Args), c.Answer().Refusal)
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		msg    relay.Message
		reason string
	}{
		"none":             {relay.Message{Missing: true}, "REQUEST_MISSING"},
		"malformed":        {relay.Message{Data: []byte{0xff}}, "REQUEST_MALFORMED"},
		"another encoding": {relay.Message{Data: []byte("x"), Compressed: true}, "ENCODING_UNSUPPORTED"},
	} {
		f, s := newReader(1<<20).With(peek.ReadInvoke), &peek.State{}
		c, _ := filtertest.NewCall()
		f.Admit(c, s)
		c.Message = test.msg
		if step := f.Admit(c, s); step != filter.Stop || c.Answer().Refusal.Reason != test.reason {
			t.Errorf("%s: step %d, %+v", name, step, c.Answer().Refusal)
		}
	}
}

// The filter requests the message first, and then reads its capability and tool.
func Example() {
	f, s := newReader(1<<20).With(peek.ReadInvoke), &peek.State{}
	c, _ := filtertest.NewCall()
	fmt.Println(f.Admit(c, s) == filter.Read)
	c.Message = relay.Message{Data: message()}
	f.Admit(c, s)
	fmt.Println(c.Fields().Capability, c.Info.Tool)
	// Output:
	// true
	// mail send
}
