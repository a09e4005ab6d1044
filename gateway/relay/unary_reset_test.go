package relay

import "testing"

// TestResponseReset: Reset clears everything of the previous call in a Response, even of a call that failed within its
// message.
func TestResponseReset(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code uint32
		size int
		kept bool
	}{
		"a message":           {codeOK, 100, true},
		"a part of a message": {codeInternal, 100, true},
		"a long message":      {codeOK, 5000, false},
		"a long part":         {codeInternal, 5000, false},
		"nothing":             {codeInternal, 0, true},
	} {
		const most = 4 << 10
		var a Response
		c := &clientEnd{}
		c.answer, c.header = &a, []Field{{"x-name", "value"}}
		c.in.buf = make([]byte, prefixLen+test.size, prefixLen+test.size+100)
		putUint32(c.in.buf[1:], uint32(test.size))
		for i := range test.size {
			c.in.buf[prefixLen+i] = 'x'
		}
		c.reply(Status{Code: test.code, Message: "m"}, []Field{{"x-trailer", "value"}})
		if (a.Message != nil) != (test.code == codeOK) {
			t.Errorf("%s: %d bytes", name, len(a.Message))
		}
		a.Reset(most)
		if a.Message != nil || a.Header != nil || a.Trailer != nil || a.Status.Code != codeOK ||
			a.Status.Message != "" || len(a.buf) != 0 ||
			(cap(a.buf) > 0) != test.kept {
			t.Errorf("%s: %+v", name, a)
		}
		for i, b := range a.buf[:cap(a.buf)] {
			if b != 0 {
				t.Fatalf("%s: byte %d is %q", name, i, b)
			}
		}
	}
}
