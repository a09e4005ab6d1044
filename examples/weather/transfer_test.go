package weather_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/weather"
	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const chunkBytes = 256 << 10

// upload sends a file in chunks as the orchestrator does. An empty file is one empty chunk.
func upload(t *testing.T, c docpb.CapabilityClient, filename, mimeType string, data []byte) (id, toolError string) {
	t.Helper()
	stream, err := c.UploadInputArtifact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), chunkBytes)
		chunk := &docpb.UploadInputArtifactChunk{Data: data[:n]}
		if first {
			chunk.Filename, chunk.MimeType = filename, mimeType
		}
		if err := stream.Send(chunk); errors.Is(err, io.EOF) {
			break // answered already; the response has the reason
		} else if err != nil {
			t.Fatal(err)
		}
		data = data[n:]
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetCapabilityArtifactId(), resp.GetError()
}

type file struct {
	name, mimeType string
	chunks         int
	data           []byte
}

func download(t *testing.T, c docpb.CapabilityClient, id string) (f file, toolError string) {
	t.Helper()
	stream, err := c.DownloadOutputArtifact(t.Context(), &docpb.DownloadOutputArtifactRequest{ArtifactId: id})
	if err != nil {
		t.Fatal(err)
	}
	for done := false; ; f.chunks++ {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if !done {
				t.Error("the download ended without done")
			}
			return f, toolError
		}
		if err != nil {
			t.Fatal(err)
		}
		switch first := f.chunks == 0; {
		case done:
			t.Error("a chunk after done")
		case first:
			f.name, f.mimeType = chunk.GetFilename(), chunk.GetMimeType()
		case chunk.GetFilename() != "" || chunk.GetMimeType() != "":
			t.Error("a name on a later chunk")
		}
		if len(chunk.GetData()) > chunkBytes {
			t.Errorf("a chunk of %d bytes", len(chunk.GetData()))
		}
		f.data = append(f.data, chunk.GetData()...)
		done, toolError = chunk.GetDone(), chunk.GetError()
	}
}

type exported struct {
	Artifact struct {
		ID        string `json:"capability_artifact_id"`
		Filename  string `json:"filename"`
		MIMEType  string `json:"mime_type"`
		SizeBytes int    `json:"size_bytes"`
	} `json:"artifact"`
	Locations int `json:"locations"`
	Rows      int `json:"rows"`
}

func TestExportOfAnUploadedList(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	id, toolError := upload(t, c, `C:\lists\places.txt`, "text/plain",
		[]byte("\ufeffZurich\r\n\r\n  Lima, Peru \nberlin\n"))
	if toolError != "" {
		t.Fatal(toolError)
	}
	out, toolError := invoke[exported](t, c, "export_report",
		`{"locations":["Berlin"],"days":3,"attachments":[{"capability_artifact_id":"`+id+`","filename":"places.txt"}]}`)
	if toolError != "" {
		t.Fatal(toolError)
	}
	if out.Artifact.Filename != "weather-2026-07-16.csv" || out.Artifact.MIMEType != "text/csv" ||
		out.Locations != 3 || out.Rows != 9 {
		t.Errorf("got %+v", out)
	}
	f, toolError := download(t, c, out.Artifact.ID)
	if toolError != "" || f.name != out.Artifact.Filename || f.mimeType != "text/csv" ||
		len(f.data) != out.Artifact.SizeBytes {
		t.Fatalf("got %q, %q, %d bytes, error %q", f.name, f.mimeType, len(f.data), toolError)
	}
	rows, err := csv.NewReader(bytes.NewReader(f.data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 10 || rows[0][0] != "location" {
		t.Fatalf("%d rows, header %v", len(rows), rows[0])
	}
	for i, city := range []string{"Berlin", "Zürich", "Lima"} { // Berlin is in the lists twice, and in the report once
		if got := rows[1+3*i]; got[0] != city || got[2] != "2026-07-16" {
			t.Errorf("row %d: %v, want %s", 1+3*i, got, city)
		}
	}
	berlin, _ := invoke[day](t, c, "get_current_weather", `{"location":"Berlin"}`)
	if got := rows[1][3]; got != strconv.FormatFloat(berlin.Temperature, 'f', -1, 64) {
		t.Errorf("the report says %s, the tool %v", got, berlin.Temperature)
	}
}

func TestExportOfEverything(t *testing.T) {
	t.Parallel()
	out, toolError := invoke[exported](t, serve(t, weather.Config{}), "export_report", ``)
	if toolError != "" || out.Locations < 60 || out.Rows != 7*out.Locations {
		t.Errorf("got %+v, error %q", out, toolError)
	}
}

func TestUnusableAttachments(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	for content, want := range map[string]string{
		"\xff\xfe\x00":                     "UTF-8",
		"\n\n":                             "empty",
		strings.Repeat("Berlin\n", 1001):   "more than 1000",
		"Berlin\n" + "Atlantis on the sea": "unknown city",
	} {
		id, _ := upload(t, c, "places.txt", "text/plain", []byte(content))
		_, got := invoke[exported](t, c, "export_report", `{"attachments":[{"capability_artifact_id":"`+id+`"}]}`)
		if !strings.Contains(got, want) {
			t.Errorf("%.20q: error %q, want %q in it", content, got, want)
		}
	}
}

func TestFilesSurviveTheRoundTrip(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{})
	for _, tc := range []struct{ size, chunks int }{{0, 1}, {1, 1}, {chunkBytes, 1}, {chunkBytes + 1, 2},
		{5<<20 + 7, 21}} {
		data := make([]byte, tc.size)
		for i := range data {
			data[i] = byte(i * i >> 8)
		}
		id, toolError := upload(t, c, "../../etc/passwd", "", data)
		if toolError != "" {
			t.Fatal(toolError)
		}
		f, toolError := download(t, c, id)
		if toolError != "" || !bytes.Equal(f.data, data) || f.chunks != tc.chunks {
			t.Errorf("%d bytes: got %d in %d chunks, want %d; error %q", tc.size, len(f.data), f.chunks, tc.chunks,
				toolError)
		}
		if f.name != "passwd" || f.mimeType != "application/octet-stream" {
			t.Errorf("stored as %q, %q", f.name, f.mimeType)
		}
	}
}

func TestUploadBounds(t *testing.T) {
	t.Parallel()
	c := serve(t, weather.Config{MaxArtifactBytes: 1 << 20, MaxHeldBytes: 2 << 20})
	if id, toolError := upload(t, c, "big", "", make([]byte, 8<<20)); id != "" ||
		!strings.Contains(toolError, "larger than 1048576") {
		t.Errorf("too large: id %q, error %q", id, toolError)
	}
	if _, toolError := upload(t, c, "fits", "", make([]byte, 1<<20)); toolError != "" {
		t.Errorf("at the limit: %s", toolError)
	}
	stream, err := c.UploadInputArtifact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.CloseAndRecv(); err != nil || resp.GetError() == "" {
		t.Errorf("no chunk: %v, %v", resp, err)
	}
	if _, toolError := download(t, c, "guess"); !strings.Contains(toolError, "no such artifact") {
		t.Errorf("unknown id: error %q", toolError)
	}
}

// TestUploadsUnderWayAreBounded: unfinished uploads count as held, and their bytes are released when the upload breaks
// off.
func TestUploadsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	ended, asked := make(chan error, 3), make(chan struct{}, 16)
	c := serve(t, weather.Config{MaxHeldBytes: 1 << 20}, grpc.ChainStreamInterceptor(reportEnd(ended),
		reportRecv(asked)))
	ctx, cancel := context.WithCancel(t.Context())
	first, err := c.UploadInputArtifact(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Send(&docpb.UploadInputArtifactChunk{Data: make([]byte, 512<<10)}); err != nil {
		t.Fatal(err)
	}
	check.Received(t, asked, "the server to ask for a chunk")
	check.Received(t, asked, "the server to ask for a chunk") // for the second chunk: the first has been read

	if _, toolError := upload(t, c, "whole", "", make([]byte, 1<<20)); !strings.Contains(toolError, "no room") {
		t.Errorf("beside an upload under way: error %q", toolError)
	}
	if err := check.Received(t, ended, "the refused upload to end"); err != nil {
		t.Errorf("the refused upload ended with %v", err)
	}
	cancel()
	if err := check.Received(t, ended, "the broken upload to end"); status.Code(err) != codes.Canceled {
		t.Errorf("the broken upload ended with %v", err)
	}
	if _, toolError := upload(t, c, "whole", "", make([]byte, 1<<20)); toolError != "" {
		t.Errorf("after the upload broke off: %s", toolError)
	}
}

func TestOldFilesMakeRoom(t *testing.T) {
	t.Parallel()
	var elapsed atomic.Int64
	now := func() time.Time { return july().Add(time.Duration(elapsed.Load())) }
	for name, tc := range map[string]struct {
		cfg  weather.Config
		step time.Duration
		size int
		kept int // number of the five files that remain
	}{
		"number": {weather.Config{MaxArtifacts: 2}, 0, 10, 2},
		"bytes":  {weather.Config{MaxHeldBytes: 3000}, 0, 1000, 3},
		"age":    {weather.Config{ArtifactTTL: 2 * time.Minute}, time.Minute, 10, 2},
	} {
		tc.cfg.Now = now
		c := serve(t, tc.cfg)
		var ids []string
		for range 5 {
			elapsed.Add(int64(tc.step))
			id, toolError := upload(t, c, "f", "", make([]byte, tc.size))
			if toolError != "" {
				t.Fatal(toolError)
			}
			ids = append(ids, id)
		}
		for i, id := range ids {
			_, toolError := download(t, c, id)
			if kept := toolError == ""; kept != (i >= 5-tc.kept) {
				t.Errorf("%s: file %d of 5 kept = %v", name, i, kept)
			}
		}
	}
}

// TestCancelEndsADownload: a client that stops reading and then cancels releases the server, which is blocked by flow
// control by then.
func TestCancelEndsADownload(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	c := serve(t, weather.Config{}, grpc.StreamInterceptor(reportEnd(ended)))
	id, toolError := upload(t, c, "big", "", make([]byte, 16<<20))
	if toolError != "" {
		t.Fatal(toolError)
	}
	if err := check.Received(t, ended, "the upload to end"); err != nil {
		t.Errorf("the upload ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.DownloadOutputArtifact(ctx, &docpb.DownloadOutputArtifactRequest{ArtifactId: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := check.Received(t, ended, "the download to end"); status.Code(err) != codes.Canceled {
		t.Errorf("the download ended with %v", err)
	}
}

// reportEnd reports the end of each stream's handler.
func reportEnd(ended chan<- error) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		err := handler(srv, stream)
		ended <- err
		return err
	}
}

// reportRecv reports each time that a handler waits for the next message.
func reportRecv(asked chan<- struct{}) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, reportingStream{stream, asked})
	}
}

type reportingStream struct {
	grpc.ServerStream
	asked chan<- struct{}
}

func (s reportingStream) RecvMsg(m any) error {
	s.asked <- struct{}{}
	return s.ServerStream.RecvMsg(m)
}
