// The same call from a program, at the public port.

/** Target is the public port. */
export interface Target {
  /** Without a final slash; empty: the program's own CAPGATE_URL. */
  url: string;
  /** Callers need a key. */
  key: boolean;
}

/** Names are what a call says of its caller; empty ones are not sent. */
export interface Names {
  user: string;
  agent: string;
  session: string;
}

export const languages = ["curl", "curl, streamed", "Python", "TypeScript", "Go"] as const;
export type Language = (typeof languages)[number];

/** files are the names under which the programs run. */
export const files: Record<Language, string> = {
  curl: "",
  "curl, streamed": "",
  Python: "call.py",
  TypeScript: "call.mts",
  Go: "call.go",
};

/** shell quotes a text for a POSIX shell. */
const shell = (s: string) => "'" + s.replaceAll("'", `'\\''`) + "'";
/** ascii is a JSON text in which what cannot be seen is escaped, so that a copied snippet has no surprise. */
const ascii = (s: string) => s.replace(/[^\x20-\x7e\n]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

const headersOf = (who: Names): [string, string][] =>
  (
    [
      ["Content-Type", "application/json"],
      ["x-user-id", who.user],
      ["x-agent-id", who.agent],
      ["x-session-id", who.session],
    ] as [string, string][]
  )
    .filter(([, v]) => v)
    .map(([k, v]) => [k, v.replace(/[^\x20-\x7e]/g, "?")]);

interface Parts {
  url: string;
  path: string;
  key: boolean;
  headers: [string, string][];
  body: string;
}

function curl(p: Parts, stream: boolean): string {
  const to = p.url ? shell(p.url + p.path) : `"$CAPGATE_URL"${shell(p.path)}`;
  const headers = p.headers.map(([k, v]) => `  -H ${shell(`${k}: ${v}`)} \\\n`).join("");
  const key = p.key ? `  -H "Authorization: Bearer $CAPGATE_KEY" \\\n` : "";
  return `curl -sS${stream ? "N" : ""} ${to} \\\n${key}${headers}  -d ${shell(p.body)}`;
}

function python(p: Parts): string {
  const os = p.key || !p.url;
  const url = p.url ? JSON.stringify(p.url + p.path) : `os.environ["CAPGATE_URL"] + ${JSON.stringify(p.path)}`;
  const key = p.key ? `        "Authorization": "Bearer " + os.environ["CAPGATE_KEY"],\n` : "";
  const headers = p.headers.map(([k, v]) => `        ${JSON.stringify(k)}: ${JSON.stringify(v)},\n`).join("");
  return `${os ? "import os\n" : ""}import urllib.error
import urllib.request

request = urllib.request.Request(
    ${url},
    data=${JSON.stringify(p.body)}.encode(),
    headers={
${key}${headers}    },
)
try:
    with urllib.request.urlopen(request, timeout=60) as answer:
        print(answer.status, answer.read().decode())  # 202: a person has to approve the call first
except urllib.error.HTTPError as refused:
    raise SystemExit(f"{refused.code} {refused.read().decode()}")`;
}

function typescript(p: Parts): string {
  const url = p.url ? JSON.stringify(p.url + p.path) : `process.env.CAPGATE_URL + ${JSON.stringify(p.path)}`;
  const key = p.key ? `    Authorization: "Bearer " + process.env.CAPGATE_KEY,\n` : "";
  const headers = p.headers.map(([k, v]) => `    ${JSON.stringify(k)}: ${JSON.stringify(v)},\n`).join("");
  return `const answer: Response = await fetch(${url}, {
  method: "POST",
  headers: {
${key}${headers}  },
  body: ${JSON.stringify(p.body)},
});
const text: string = await answer.text();
if (!answer.ok) throw new Error(\`\${answer.status} \${text}\`);
console.log(answer.status, text); // 202: a person has to approve the call first`;
}

function go(p: Parts): string {
  const os = p.key || !p.url;
  const url = p.url ? JSON.stringify(p.url + p.path) : `os.Getenv("CAPGATE_URL")+${JSON.stringify(p.path)}`;
  const key = p.key ? `\trequest.Header.Set("Authorization", "Bearer "+os.Getenv("CAPGATE_KEY"))\n` : "";
  const headers = p.headers
    .map(([k, v]) => `\trequest.Header.Set(${JSON.stringify(k)}, ${JSON.stringify(v)})\n`)
    .join("");
  return `package main

import (
\t"fmt"
\t"io"
\t"log"
\t"net/http"
${os ? `\t"os"\n` : ""}\t"strings"
)

func main() {
\tbody := strings.NewReader(${JSON.stringify(p.body)})
\trequest, err := http.NewRequest(http.MethodPost, ${url}, body)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
${key}${headers}\tanswer, err := http.DefaultClient.Do(request)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tdefer answer.Body.Close()
\ttext, err := io.ReadAll(answer.Body)
\tif err != nil {
\t\tlog.Fatal(err)
\t}
\tif answer.StatusCode >= 400 {
\t\tlog.Fatal(answer.Status, " ", string(text))
\t}
\tfmt.Println(answer.StatusCode, string(text)) // 202: a person has to approve the call first
}`;
}

export const pathOfTool = (capability: string, tool: string) =>
  `/v1/capabilities/${encodeURIComponent(capability)}/tools/${encodeURIComponent(tool)}`.replaceAll("'", "%27");

/** snippets are programs that make a call. They have printable ASCII alone, tabs and line breaks. */
export function snippets(
  to: Target,
  who: Names,
  capability: string,
  tool: string,
  args: string,
): Record<Language, string> {
  const path = pathOfTool(capability, tool);
  const p: Parts = { url: to.url, key: to.key, path, headers: headersOf(who), body: ascii(args) };
  return {
    curl: curl(p, false),
    "curl, streamed": curl({ ...p, path: path + "/stream" }, true),
    Python: python(p),
    TypeScript: typescript(p),
    Go: go(p),
  };
}
