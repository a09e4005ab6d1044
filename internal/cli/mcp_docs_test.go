package cli

import (
	"strings"
	"testing"
)

// topLevel runs a program with await outside of functions, as notebooks allow. Packages come from a directory
// first; if it is empty, from the environment. If the program has tools of LangChain, it calls one.
const topLevel = `
import ast, asyncio, sys
sys.path.insert(0, sys.argv[2])
names = {}
async def run():
    code = compile(sys.argv[1], "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)
    for tool in names.get("tools", []):
        if tool.name == "weather__get_forecast":
            print(await tool.ainvoke({"location": "Berlin", "days": 2}))
asyncio.run(run())
`

// TestPythonOfMCP: the documented lines in Python that connect a client work unchanged.
func TestPythonOfMCP(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, _ := addresses(greeting)
	ran := map[string]bool{}
	for _, b := range blocks(t, "docs/use/mcp.md") {
		if b.info != "python test" {
			continue
		}
		name, packages := "sdk", ""
		if strings.Contains(b.text, "langchain") {
			name, packages = "langchain", installed(t, "langchain")
		}
		ran[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := strings.ReplaceAll(b.text, "localhost:8080", public)
			out := tells(t, t.TempDir(), installed(t, "venv", "bin", "python"), "-c", topLevel, program, packages)
			if !strings.Contains(out, "Berlin") || strings.Contains(strings.ToLower(out), "error=true") {
				t.Errorf("got %s", out)
			}
		})
	}
	if !ran["sdk"] || !ran["langchain"] {
		t.Errorf("docs/use/mcp.md has the tested lines of %v alone", ran)
	}
}
