package conform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/container"
	"github.com/capgate/capgate/internal/lib/httpclient"
)

// outlive makes a call whose deadline is sent to the server but not enforced by the client, unlike in gRPC clients. It
// waits for the end of the call. An incomplete call never ends its request.
func outlive(ctx context.Context, to container.Target, path string, message proto.Message, whole bool,
	deadline time.Duration) error {
	protocols := new(http.Protocols)
	scheme := "http"
	if to.TLS != nil {
		scheme = "https"
		protocols.SetHTTP2(true)
	}
	protocols.SetUnencryptedHTTP2(to.TLS == nil)
	client := httpclient.New(httpclient.Config{Name: "capgate-conform", Protocols: protocols, TLS: to.TLS.Clone()})
	defer client.CloseIdleConnections()

	body, writing := io.Pipe()
	var writer sync.WaitGroup
	defer writer.Wait()
	defer func() { _ = body.Close() }() // ends the writer
	writer.Go(func() {
		if _, err := writing.Write(frame(message)); err == nil && whole {
			_ = writing.Close()
		}
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+to.Addr+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	request.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", deadline.Milliseconds()))
	response, err := client.Transport.RoundTrip(request)
	if err != nil {
		return ended(ctx, err)
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<20))
	return ended(ctx, err)
}

// ended returns nil if the server has ended the call, by a status, a reset, or the end of the connection.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

// frame returns a message with its gRPC prefix (gRPC over HTTP/2, "Length-Prefixed-Message").
func frame(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil // the kit's own messages never fail
	}
	framed := binary.BigEndian.AppendUint32([]byte{0},
		uint32(len(data))) //nolint:gosec // the kit's own messages are short
	return append(framed, data...)
}
