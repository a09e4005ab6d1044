package main

import (
	"context"
	"fmt"
	"strings"
)

const formulaFile = "capgate.rb"

// makeFormula writes the Homebrew formula, which installs the archives.
func (r *release) makeFormula(context.Context) error {
	var sources strings.Builder
	for _, p := range r.platforms {
		sum, err := r.sum(r.archive(p))
		if err != nil {
			return err
		}
		system := map[string]string{"darwin": "on_macos", "linux": "on_linux"}[p.system]
		arch := map[string]string{"amd64": "on_intel", "arm64": "on_arm"}[p.arch]
		fmt.Fprintf(&sources, "  %s do\n    %s do\n      url %q\n      sha256 %q\n    end\n  end\n", system, arch,
			r.address(r.archive(p)), sum)
	}
	return r.write(formulaFile, fmt.Appendf(nil, formula, project, r.number(), license, sources.String()))
}

const formula = `class Capgate < Formula
  desc "Gateway for the tools of AI agents"
  homepage "%s"
  version "%s"
  license "%s"

%s
  def install
    bin.install "capgate", "capgate-forward"
    man1.install "man/capgate.1"
    man5.install "man/capgate.yaml.5"
    bash_completion.install "completions/capgate.bash" => "capgate"
    zsh_completion.install "completions/_capgate"
    fish_completion.install "completions/capgate.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/capgate version")
  end
end
`
