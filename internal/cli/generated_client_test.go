package cli

import (
	"strings"
	"testing"
)

// generatedClient makes calls that need the types of a generated client: any arguments and configuration, and a
// response that differs from an approval by its type.
const generatedClient = `import createClient from "openapi-fetch";
import type { components, paths } from "./capgate.js";

const capgate = createClient<paths>({ baseUrl: "http://ADDRESS", headers: { "x-user-id": "ann" } });
const { data, error, response } = await capgate.POST("/v1/capabilities/{capability_id}/invoke", {
  params: { path: { capability_id: "weather" } },
  body: { tool_name: "get_forecast", args: { location: "Berlin", days: 2 }, config: { nested: { any: [1, null] } } },
});
if (error) throw new Error(error.detail);
if ("approval" in data) {
  const approval: components["schemas"]["ApprovalRequired"]["approval"] = data.approval;
  const status: "approval_required" = data.status;
  console.log(response.status, status, approval.id === data.approval_id, approval.path);
} else {
  const result: components["schemas"]["InvokeResponse"] = data;
  console.log(response.status, "result", result.result);
}
const any = await capgate.POST("/v1/capabilities/{capability_id}/tools/{tool_name}", {
  params: { path: { capability_id: "weather", tool_name: "get_current_weather" } }, body: { location: "Paris" },
});
console.log(any.response.status, any.data);
`

// TestGeneratedClientsKnowApprovals: a generated client passes any arguments, and distinguishes a 202 from a
// 200 by type.
func TestGeneratedClientsKnowApprovals(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	public, admin := addresses(greeting)
	dir := beside(t)
	tells(t, dir, installed(t, "node", "node_modules", ".bin", "openapi-typescript"),
		"http://"+public+"/openapi.json", "--output", "capgate.d.ts")
	put(t, dir, "client.ts", strings.ReplaceAll(generatedClient, "ADDRESS", public))
	tells(t, dir, installed(t, "node", "node_modules", ".bin", "tsc"), "--strict", "--target", "es2022", "--module",
		"nodenext", "--noUncheckedIndexedAccess", "--skipDefaultLibCheck", "client.ts")
	if out := tells(t, dir, "node", "client.js"); !strings.HasPrefix(out, "200 result [") ||
		!strings.Contains(out, "location: 'Paris'") {
		t.Errorf("got %s", out)
	}
	exit, stdout, stderr := runProgram(t, nil, "policy", "set", "weather", "get_forecast", "ask", "--admin", admin)
	if exit != 0 {
		t.Fatalf("%d %s%s", exit, stdout, stderr)
	}
	if out := tells(t, dir, "node", "client.js"); !strings.HasPrefix(out,
		"202 approval_required true /v1/approvals/apr_") {
		t.Errorf("got %s", out)
	}
}
