package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestReloadWhileTheFileKeepsChanging: a file that differs at every check is loaded anyway. If it is
// incomplete, that is reported, and the previous configuration stays in effect.
func TestReloadWhileTheFileKeepsChanging(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr
	whole := configOf("", backend)
	for name, test := range map[string]struct {
		text   func(n int) string
		output string
	}{
		"whole": {func(n int) string { return fmt.Sprintf("# %d\n%s", n, whole) }, `"msg":"configuration loaded"`},
		"half written": {func(n int) string { return fmt.Sprintf("# %d\n%s", n, whole[:len(whole)-20]) },
			`configuration not loaded`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := writeConfig(t, whole)
			p, public, _ := serve(t, nil, "--config", file)
			stop := make(chan struct{})
			var writer sync.WaitGroup
			defer writer.Wait()
			defer close(stop)
			writer.Go(func() {
				next := filepath.Join(filepath.Dir(file), "next")
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
					}
					if err := os.WriteFile(next, []byte(test.text(n)), 0o600); err != nil {
						t.Error(err)
					}
					if err := os.Rename(next, file); err != nil {
						t.Error(err)
					}
				}
			})
			p.stderr.wait(t, p, test.output)
			if _, err := dial(t, public).Invoke(t.Context(),
				&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
					ArgsJson: []byte("{}")}); err != nil {
				t.Error(err)
			}
		})
	}
}
