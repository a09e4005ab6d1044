package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capgate/capgate/docs"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// retryWords are words by which clients take an error for a failure that a further call mends, in any case: a text of
// a call that may have run has none of them.
//
//   - Selu's orchestrator repeats a call whose error contains "connect".
//   - grpc-go, grpc-node and grpc-java decide by codes alone, see relay.Status.NoRetry; their own texts of connections
//     that failed have "transport", "closing", "error reading from server: EOF", "reset by peer".
//   - Libraries of Google for Node repeat INTERNAL with "rst_stream" or "rst stream".
//   - Programs around C++ and Python clients look for "socket closed", "broken pipe", "keepalive watchdog timeout".
//   - Programs around language models, in Go, Python and JavaScript, look for the rest.
var retryWords = []string{
	"connect", "refused", "reset", "broken pipe", "eof", "end of file", "hang up", "socket", "peer", "network", "dns",
	"econn", "timeout", "timed out", "time out", "deadline exceeded", "unavailable", "unreachable", "not ready",
	"transport", "closing", "closed", "goaway", "going away", "rst_stream", "rst stream", "shutting down", "try again",
	"retry", "repeat it", "later", "temporar", "transient", "overload", "rate limit", "too many requests", "busy",
}

// RetryWord returns the word in text that makes clients retry the call; empty means none.
func RetryWord(text string) string {
	for _, word := range retryWords {
		if strings.Contains(strings.ToLower(text), word) {
			return word
		}
	}
	return ""
}

// TestWordsThatClientsRetryOn: no text of a call that may have run contains a retry word: neither those of the
// relay's failures nor those of such refusals in the source.
func TestWordsThatClientsRetryOn(t *testing.T) {
	t.Parallel()
	for f := relay.NoFailure; f <= relay.UpstreamNotGRPC; f++ {
		if text := status.Failure(f, call.Sent).Message; RetryWord(text) != "" {
			t.Errorf("%v: %q has %q", f, text, RetryWord(text))
		}
	}
	_, listed, _ := strings.Cut(docs.Errors, "none of these\nwords:")
	listed, _, _ = strings.Cut(listed, ".\n")
	for _, word := range strings.Split(strings.TrimSpace(listed), ",") {
		if word = strings.Trim(word, " \n`"); RetryWord(word) == "" {
			t.Errorf("docs/errors.md lists %q, which is no retry word", word)
		}
	}
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if path == filepath.Join("..", "bin") && d.IsDir() { // files there may vanish meanwhile
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if mayHaveRun(n) {
				found++
				for _, text := range textsIn(n) {
					if RetryWord(text) != "" {
						t.Errorf("%s: %q has %q", path, text, RetryWord(text))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d refusals in the source, %v", found, err)
	}
}

// mayHaveRun reports whether a node creates the error of a call that may have run: a refusal with a progress,
// or a call of upstream.Lost or upstream.Unusable.
func mayHaveRun(n ast.Node) bool {
	if made, ok := n.(*ast.CallExpr); ok {
		f, ok := made.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		of, ok := f.X.(*ast.Ident)
		return ok && of.Name == "upstream" && (f.Sel.Name == "Lost" || f.Sel.Name == "Unusable")
	}
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return false
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Progress" {
				return true
			}
		}
	}
	return false
}

// textsIn returns the sentences in a node: strings with a space.
func textsIn(node ast.Node) (texts []string) {
	ast.Inspect(node, func(n ast.Node) bool {
		if b, ok := n.(*ast.BasicLit); ok && b.Kind == token.STRING {
			if text, err := strconv.Unquote(b.Value); err == nil && strings.Contains(text, " ") {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
