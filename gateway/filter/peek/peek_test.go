package peek_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

func newReader(memory int64) *peek.Reader {
	table, err := router.NewTable(router.Config{}, nil)
	if err != nil {
		panic(err)
	}
	return peek.NewReader(peek.Config{
		MaxMessage: 1 << 20, Memory: fairshare.New("inflating", memory), Tables: router.New(table),
		Heeds: func(string) bool { return true },
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

// TestCompressed: a message that has to be read is unpacked while the call waits, if there is memory for it.
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
			if step != filter.Stop || !c.Shed {
				t.Errorf("step %d, shed %t", step, c.Shed)
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

// The filter asks for the message first, and reads capability and tool out of it then.
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
