package listing

import (
	"context"
	"crypto/sha256"
	"runtime"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Fingerprint returns a digest of the tools that a caller may use: their names, descriptions and schemas, whether
// their calls need an approval, and the result of hints for each. It uses one goroutine and yields in between. The
// error is a gRPC status.
func (s *Server) Fingerprint(ctx context.Context, caller *tenant.Identity,
	hints func(capability, tool string) byte) (sum [sha256.Size]byte, err error) {
	h, n := sha256.New(), 0
	for _, id := range s.tools.Capabilities() {
		if !caller.Sees(id) {
			continue
		}
		tools, _ := s.tools.Tools(id)
		for i := range tools {
			d, err := s.decide(ctx, *caller, id, tools[i].Name)
			if err != nil {
				return sum, err
			}
			if d.Verdict != call.Block {
				h.Write([]byte(id + "\x00" + tools[i].Name + "\x00"))
				h.Write(append(tools[i].Hash[:], byte(d.Verdict), hints(id, tools[i].Name)))
			}
			if n++; n%16 == 0 {
				runtime.Gosched()
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
