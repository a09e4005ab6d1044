package gateway_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestDigestInTrailer: a digest in a trailer is verified like one in a header, over HTTP/1.1 and HTTP/2,
// whether or not the trailer was announced.
func TestDigestInTrailer(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}}})
	sum := func(s string) string {
		b := sha256.Sum256([]byte(s))
		return base64.StdEncoding.EncodeToString(b[:])
	}
	const file = "some bytes"
	for _, announced := range []bool{true, false} {
		for name, want := range map[string]string{"Repr-Digest: sha-256=:" + sum(file) + ":": "201",
			"Digest: sha-256=" + sum(file):                "201",
			"Repr-Digest: sha-256=:" + sum("other") + ":": "400", "Content-Digest: sha-256=:" + sum("other") +
				":": "400", "Digest: sha-256=" + sum("other"): "400"} {
			trailer, value, _ := strings.Cut(name, ": ")
			for protocol, upload := range map[string]func(addr, file, trailer, value string, announced bool) (string,
				string, error){
				"HTTP/1.1": upload1, "HTTP/2": upload2,
			} {
				code, body, err := upload(g.Addr, file, trailer, value, announced)
				if err != nil || code != want || (want == "400") != strings.Contains(body, "DIGEST_MISMATCH") {
					t.Errorf("%s, %s, announced %v: %v, %s %s", protocol, name, announced, err, code, body)
				}
			}
		}
	}
}

func upload1(addr, file, trailer, value string, announced bool) (code, body string, err error) {
	conn, err := net.DialTimeout("tcp", addr, check.Patience)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(check.Patience))
	announce := ""
	if announced {
		announce = "Trailer: " + trailer + "\r\n"
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: "+
		"chunked\r\n%s\r\n%x\r\n%s\r\n0\r\n%s: %s\r\n\r\n",
		filesPath, announce, len(file), file, trailer, value)
	if err != nil {
		return "", "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", "", err
	}
	all, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode), string(all), err
}

func upload2(addr, file, trailer, value string, announced bool) (code, body string, err error) {
	conn, err := rawhttp2.Dial(addr)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	fields := []string{":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", filesPath,
		"content-type", "text/plain"}
	if announced {
		fields = append(fields, "trailer", trailer)
	}
	err = errors.Join(conn.Greet(), conn.Write(rawhttp2.Headers(1, false, conn.Block(fields...)),
		rawhttp2.Data(1, false, []byte(file)),
		rawhttp2.Headers(1, true, conn.Block(strings.ToLower(trailer), value))))
	if err != nil {
		return "", "", err
	}
	resp, err := conn.WaitResponse(1)
	return resp.Header[":status"], string(resp.Body), err
}
