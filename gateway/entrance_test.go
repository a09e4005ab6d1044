package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
)

// However many clients keep the gateway waiting for their bodies, the next request is answered.
func TestSlowBodiesKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	const slow = 50
	for range slow {
		conn, err := net.Dial("tcp", f.gateway.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST /v1/capabilities/caps/tools/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n') // comes when the gateway begins to wait
		if err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(line, err)
		}
	}
	for _, p := range protocols {
		if resp, text := post(t, p.client(f.gateway, t), f.gateway, "caps", `{"tool_name":"echo"}`); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", p.name, resp.Status, text)
		}
	}
}
