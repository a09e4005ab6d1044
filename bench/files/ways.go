package files

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Way is one way to transfer the file through the gateway at an address. The fleet is called weather.
type Way struct {
	Title string
	Move  func(ctx context.Context, addr string) error
}

// Ways returns all ways.
func Ways() []Way {
	one, two := client(false), client(true)
	return []Way{
		{"up, HTTP/1.1", func(ctx context.Context, addr string) error { return upload(ctx, one, addr) }},
		{"up, HTTP/2", func(ctx context.Context, addr string) error { return upload(ctx, two, addr) }},
		{"up, gRPC", func(ctx context.Context, addr string) error { return byGRPC(ctx, addr, send) }},
		{"down, HTTP/1.1", func(ctx context.Context, addr string) error { return download(ctx, one, addr) }},
		{"down, HTTP/2", func(ctx context.Context, addr string) error { return download(ctx, two, addr) }},
		{"down, gRPC", func(ctx context.Context, addr string) error { return byGRPC(ctx, addr, receive) }},
	}
}

func client(second bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!second)
	protocols.SetUnencryptedHTTP2(second)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// zeros returns a reader of Size zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func upload(ctx context.Context, c *http.Client, addr string) error {
	_, err := do(ctx, c, http.MethodPost, "http://"+addr+"/v1/capabilities/weather/artifacts",
		io.LimitReader(zeros{}, Size))
	return err
}

func download(ctx context.Context, c *http.Client, addr string) error {
	n, err := do(ctx, c, http.MethodGet, "http://"+addr+"/v1/capabilities/weather/artifacts/file", nil)
	if err == nil && n != Size {
		err = fmt.Errorf("received %d bytes", n)
	}
	return err
}

// do sends a request and returns the number of bytes in its response.
func do(ctx context.Context, c *http.Client, method, url string, body io.Reader) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("unexpected status %s", resp.Status)
	}
	return n, err
}

func byGRPC(ctx context.Context, addr string, move func(context.Context, docpb.CapabilityClient) error) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return move(metadata.AppendToOutgoingContext(ctx, "x-capability-id", "weather"), docpb.NewCapabilityClient(conn))
}

func send(ctx context.Context, c docpb.CapabilityClient) error {
	stream, err := c.UploadInputArtifact(ctx)
	if err != nil {
		return err
	}
	chunk := &docpb.UploadInputArtifactChunk{Data: make([]byte, chunkSize)}
	for left := Size; left > 0 && err == nil; left -= chunkSize {
		err = stream.Send(chunk)
	}
	_, err = stream.CloseAndRecv() // has the error that made Send fail
	return err
}

func receive(ctx context.Context, c docpb.CapabilityClient) error {
	stream, err := c.DownloadOutputArtifact(ctx, &docpb.DownloadOutputArtifactRequest{ArtifactId: "file"})
	if err != nil {
		return err
	}
	for n := 0; ; {
		chunk, err := stream.Recv()
		switch {
		case err == io.EOF && n == Size:
			return nil
		case err == io.EOF:
			return fmt.Errorf("received %d bytes", n)
		case err != nil:
			return err
		}
		n += len(chunk.GetData())
	}
}
