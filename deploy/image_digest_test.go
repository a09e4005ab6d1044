package deploy

import (
	"strings"
	"testing"
)

// TestImageByDigest: a digest takes precedence over the tag, and an invalid one is rejected.
func TestImageByDigest(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	out, err := tool(t, "helm", "template", "capgate", "helm/capgate", "--kube-version", "1.34.0", "--set",
		"image.digest="+digest+",image.tag=x")
	if err != nil || !strings.Contains(string(out), `image: "ghcr.io/capgate/capgate@`+digest+`"`) {
		t.Errorf("%v; out %+v", err, string(out))
	}
	if _, err := tool(t, "helm", "template", "capgate", "helm/capgate", "--kube-version", "1.34.0", "--set",
		"image.digest=latest"); err == nil {
		t.Error("an invalid digest is accepted")
	}
}
