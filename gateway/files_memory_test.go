package gateway_test

import (
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	ahead = 24 << 20 // bytes in transit, including socket buffers
	grown = 32 << 20 // bytes of memory that a transfer may use, including client and capability
	large = 64 << 20 // bytes of a file that does not fit
)

// transferMeter is a file in transit through a gateway.
type transferMeter struct {
	sent atomic.Int64

	mu           sync.Mutex
	read         int64
	most         int64  // bytes in transit
	before, peak uint64 // bytes of memory
}

// begin is called when everything is set up but the file.
func (p *transferMeter) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = heap()
}

// heap returns the heap in use, in bytes. It takes some milliseconds.
func heap() uint64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

// took records bytes that were read. It measures the memory once per MiB, which makes the reader slow.
func (p *transferMeter) took(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.read
	p.read += int64(n)
	p.most = max(p.most, p.sent.Load()-p.read)
	if p.read>>20 != before>>20 {
		p.peak = max(p.peak, heap())
	}
}

// check reports which maximum was exceeded.
func (p *transferMeter) check(t *testing.T, what string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	more := int64(p.peak) - int64(p.before)
	t.Logf("%s: %d MiB, at most %.1f MiB ahead, %.1f MiB of memory", what, p.read>>20, float64(p.most)/(1<<20),
		float64(more)/(1<<20))
	if p.read != large || p.most > ahead || more > grown {
		t.Errorf("%s: %d bytes, %d ahead, %d of memory", what, p.read, p.most, more)
	}
}

// TestUploadsWait: a client cannot send more than the slow capability has read, apart from buffers. The file
// does not accumulate in memory.
func TestUploadsWait(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	for _, protocol := range protocols {
		p := new(transferMeter)
		g, _ := startOddFiles(t, large, &oddFiles{upload: func(s uploads) error {
			for {
				c, err := s.Recv()
				if err == io.EOF {
					return s.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: "x"})
				}
				if err != nil {
					return err
				}
				p.took(len(c.GetData()))
			}
		}})
		client := protocol.client(g, t)
		client.Timeout = 0
		p.begin()
		got := transfer(t, client, http.MethodPost, g.URL(filesPath), &countedZeros{left: large, sent: &p.sent})
		if got.StatusCode != http.StatusCreated {
			t.Errorf("%s: %s %s", protocol.name, got.Status, got.body)
		}
		p.check(t, protocol.name)
	}
}

// TestDownloadsWait: the same for a slow client: the capability cannot send more than the client has read.
func TestDownloadsWait(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	for _, protocol := range protocols {
		p := new(transferMeter)
		g, _ := startOddFiles(t, large, &oddFiles{download: func(s downloads) error {
			piece := make([]byte, 256<<10)
			for left := int64(large); ; {
				p.sent.Add(int64(len(piece)))
				left -= int64(len(piece))
				if err := s.Send(&docpb.ArtifactChunk{Data: piece, Done: left == 0}); err != nil || left == 0 {
					return err
				}
			}
		}})
		client := protocol.client(g, t)
		client.Timeout, client.Transport = 0, clienttest.Bound(client.Transport)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL(filesPath+"/x"), nil)
		check.Must(t, err)
		p.begin()
		resp, err := client.Do(req)
		check.Must(t, err)
		for buf := make([]byte, 64<<10); err == nil; {
			var n int
			n, err = resp.Body.Read(buf)
			p.took(n)
		}
		_ = resp.Body.Close()
		if err != io.EOF || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", protocol.name, resp.Status, err)
		}
		p.check(t, protocol.name)
	}
}

// countedZeros is a body of zeros that counts its bytes.
type countedZeros struct {
	left int64
	sent *atomic.Int64
}

func (c *countedZeros) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.left))
	clear(p[:n])
	c.left -= int64(n)
	c.sent.Add(int64(n))
	return n, nil
}
