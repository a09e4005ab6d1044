package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// eachPair runs a test for every client's dialect with every backend's that has files.
func eachPair(t *testing.T, test func(t *testing.T, client, backend call.Dialect)) {
	t.Parallel()
	for _, client := range []call.Dialect{call.Doc, call.Live} {
		for _, backend := range []call.Dialect{call.Doc, call.Live} {
			t.Run(client.String()+" client, "+backend.String()+" backend", func(t *testing.T) {
				t.Parallel()
				test(t, client, backend)
			})
		}
	}
}

// every runs a test for every client's dialect with every backend's.
func every(t *testing.T, test func(t *testing.T, client, backend call.Dialect)) {
	t.Parallel()
	for _, client := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		for _, backend := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
			t.Run(client.String()+" client, "+backend.String()+" backend", func(t *testing.T) {
				t.Parallel()
				test(t, client, backend)
			})
		}
	}
}

// filed reports whether the pair of dialects supports files.
func filed(client, backend call.Dialect) bool { return client != call.Legacy && backend != call.Legacy }

func TestInvokeInEveryDialect(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		for _, test := range []struct {
			tool, result, failure string
			code                  codes.Code
		}{
			{tool: gatewaytest.Echo, result: `{"a":1}`},
			{tool: gatewaytest.Fail, failure: `the tool failed for {"a":1}`},
			{tool: gatewaytest.Break, code: codes.DataLoss},
		} {
			var trailer metadata.MD
			resp, err := f.client.Invoke(t.Context(), request(test.tool, `{"a":1}`), grpc.Trailer(&trailer))
			if status.Code(err) != test.code || string(resp.GetResultJson()) != test.result ||
				resp.GetError() != test.failure {
				t.Errorf("%s: %v, %v", test.tool, resp, err)
			}
			if got := trailer.Get("served-by"); len(got) != 1 || got[0] != "b1" {
				t.Errorf("%s: served by %q", test.tool, got)
			}
			if test.code == codes.OK {
				continue
			}
			st := status.Convert(err)
			if info := errorInfo(err); st.Message() != "broke: 100% of it, naïvely" ||
				info.GetDomain() != "capability.example" {
				t.Errorf("%s: the backend's status changed: %v %v; info %+v", test.tool, st, st.Details(), info)
			}
		}
	})
}

func TestStreamInvokeInEveryDialect(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		for _, test := range []struct {
			tool, failure string
			chunks        int
			done          bool
		}{
			{gatewaytest.Echo, "", 2, true},
			{gatewaytest.Fail, `the tool failed for {"a":1}`, 2, true},
			{gatewaytest.Cut, "", 1, false},
		} {
			chunks, err := f.client.StreamInvoke(t.Context(), request(test.tool, `{"a":1}`))
			if err != nil || len(chunks) != test.chunks {
				t.Errorf("%s: %d chunks, %v", test.tool, len(chunks), err)
				continue
			}
			if last := chunks[len(chunks)-1]; last.GetDone() != test.done || last.GetError() != test.failure {
				t.Errorf("%s: the last chunk is %v", test.tool, last)
			}
		}
	})
}

func TestHealthcheckInEveryDialect(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		ready, message, err := f.client.Healthcheck(to(t.Context(), "caps"))
		if err != nil || !ready || message != "1 of 1 backends ready" && client != call.Legacy {
			t.Errorf("got %v %q %v", ready, message, err)
		}
	})
}

func TestFilesInEveryDialect(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		ctx := to(t.Context(), "caps")
		for _, test := range []struct {
			name string
			data []byte
		}{
			{"empty.bin", nil},
			{"one.bin", []byte{0xff}}, // not UTF-8: decoding in the wrong dialect fails
			{"text.txt", []byte("plain text")},
			{"big.bin", bytes.Repeat([]byte("\x00\x01\xfe\xff2MiB!"), 2<<20/9+1)[:2<<20]},
		} {
			file := gatewaytest.File{Name: test.name, MIME: "application/x-test", Data: test.data}
			up, err := f.client.Upload(ctx, file)
			if err != nil || up.ID == "" || up.Error != "" {
				t.Fatalf("upload %s: %+v, %v", test.name, up, err)
			}
			if client == call.Live && up.Size != uint64(len(test.data)) {
				t.Errorf("upload %s: size %d, want %d", test.name, up.Size, len(test.data))
			}
			if kept, ok := f.capability.File(up.ID); !ok || !sameFile(kept, file) {
				t.Errorf("upload %s: the capability has %q, %q, %d bytes; ok %+v", test.name, kept.Name, kept.MIME,
					len(kept.Data),
					ok)
			}
			if got, err := f.client.Download(ctx, up.ID); err != nil || !sameFile(got, file) {
				t.Errorf("download %s: %q, %q, %d bytes, %v", test.name, got.Name, got.MIME, len(got.Data), err)
			}
		}
	})
}

func sameFile(a, b gatewaytest.File) bool {
	return a.Name == b.Name && a.MIME == b.MIME && bytes.Equal(a.Data, b.Data)
}

func TestRefusedFilesInEveryDialect(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		ctx := to(t.Context(), "caps")
		up, err := f.client.Upload(ctx, gatewaytest.File{Name: gatewaytest.RefusedFile, Data: []byte("x")})
		if err != nil || up.Error != "this file is not wanted" || up.ID != "" || up.Size != 0 {
			t.Errorf("upload: %+v, %v", up, err)
		}
		if _, err := f.client.Download(ctx, "nothing"); err == nil || err.Error() != "no such file" {
			t.Errorf("download: %v", err)
		}
		for _, line := range f.gateway.Log.Calls(t, 2) {
			if line.Text("code") != "OK" || line.Text("outcome") != "tool_error" {
				t.Errorf("logged %v", line)
			}
		}
	})
}

// Everything about a translated upload except its bytes comes from the caller.
func TestTranslationKeepsMetadataAndAuthority(t *testing.T) {
	t.Parallel()
	for _, dialects := range [][2]call.Dialect{{call.Doc, call.Live}, {call.Live, call.Doc}} {
		t.Run(dialects[0].String(), func(t *testing.T) {
			t.Parallel()
			f := startFront(t, dialects[0], dialects[1])
			ctx := metadata.AppendToOutgoingContext(t.Context(), "custom", "a", "custom", "b", "raw-bin", "\x00\xff",
				"x-user-id", "mallory")
			var trailer metadata.MD
			up, err := f.client.Upload(ctx, gatewaytest.File{Name: "f", Data: []byte("d")},
				grpc.CallAuthority("caps.caps.example.com"), grpc.Trailer(&trailer))
			if err != nil || up.ID == "" {
				t.Fatalf("got %+v, %v", up, err)
			}
			if got := trailer.Get("served-by"); len(got) != 1 || got[0] != "b1" {
				t.Errorf("trailer: %v; got %+v", trailer, got)
			}
			seen := f.capability.Seen()
			if len(seen) != 1 {
				t.Fatalf("%d calls reached the backend", len(seen))
			}
			md := seen[0].Metadata
			for name, want := range map[string]string{"custom": "a|b", "raw-bin": "\x00\xff", "x-user-id": "",
				":authority": "caps.caps.example.com"} {
				if got := strings.Join(md.Get(name), "|"); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}
