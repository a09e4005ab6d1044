package hpack_test

import (
	"slices"
	"testing"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// rfcSeries is one of the series of blocks in RFC 7541 Appendix C, decoded one
// after the other by one decoder.
type rfcSeries struct {
	name   string
	table  uint32
	blocks []string
	want   [][]nv
}

var rfcRequests = [][]nv{
	{{name: ":method", value: "GET"}, {name: ":scheme", value: "http"}, {name: ":path", value: "/"},
		{name: ":authority", value: "www.example.com"}},
	{{name: ":method", value: "GET"}, {name: ":scheme", value: "http"}, {name: ":path", value: "/"},
		{name: ":authority", value: "www.example.com"}, {name: "cache-control", value: "no-cache"}},
	{{name: ":method", value: "GET"}, {name: ":scheme", value: "https"}, {name: ":path", value: "/index.html"},
		{name: ":authority", value: "www.example.com"}, {name: "custom-key", value: "custom-value"}},
}

var rfcResponses = [][]nv{
	{{name: ":status", value: "302"}, {name: "cache-control", value: "private"},
		{name: "date", value: "Mon, 21 Oct 2013 20:13:21 GMT"}, {name: "location", value: "https://www.example.com"}},
	{{name: ":status", value: "307"}, {name: "cache-control", value: "private"},
		{name: "date", value: "Mon, 21 Oct 2013 20:13:21 GMT"}, {name: "location", value: "https://www.example.com"}},
	{{name: ":status", value: "200"}, {name: "cache-control", value: "private"},
		{name: "date", value: "Mon, 21 Oct 2013 20:13:22 GMT"}, {name: "location", value: "https://www.example.com"},
		{name: "content-encoding", value: "gzip"},
		{name: "set-cookie", value: "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"}},
}

var rfcAppendixC = []rfcSeries{
	{"C.2.1 literal with indexing", 4096,
		[]string{"400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572"},
		[][]nv{{{name: "custom-key", value: "custom-header"}}}},
	{"C.2.2 literal without indexing", 4096,
		[]string{"040c 2f73 616d 706c 652f 7061 7468"},
		[][]nv{{{name: ":path", value: "/sample/path"}}}},
	{"C.2.3 literal never indexed", 4096,
		[]string{"1008 7061 7373 776f 7264 0673 6563 7265 74"},
		[][]nv{{{name: "password", value: "secret", sensitive: true}}}},
	{"C.2.4 indexed", 4096,
		[]string{"82"},
		[][]nv{{{name: ":method", value: "GET"}}}},
	{"C.3 requests", 4096, []string{
		"8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
		"8286 84be 5808 6e6f 2d63 6163 6865",
		"8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
	}, rfcRequests},
	{"C.4 requests, Huffman", 4096, []string{
		"8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
		"8286 84be 5886 a8eb 1064 9cbf",
		"8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
	}, rfcRequests},
	{"C.5 responses", 256, []string{
		`4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a
		 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
		"4803 3330 37c1 c0bf",
		`88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04
		 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49
		 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31`,
	}, rfcResponses},
	{"C.6 responses, Huffman", 256, []string{
		`4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e
		 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`,
		"4883 640e ffc1 c0bf",
		`88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7
		 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed
		 4ee5 b106 3d50 07`,
	}, rfcResponses},
}

func TestDecodeRFCVectors(t *testing.T) {
	t.Parallel()
	for _, s := range rfcAppendixC {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d := hpack.NewDecoder(hpack.NewInterner(nil), s.table)
			for i, block := range s.blocks {
				var l hpack.List
				if err := d.Decode(unhex(t, block), &l, roomy); err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				if got := fieldsOf(&l); !slices.Equal(got, s.want[i]) {
					t.Errorf("block %d:\n got %v\nwant %v", i, got, s.want[i])
				}
			}
		})
	}
}
