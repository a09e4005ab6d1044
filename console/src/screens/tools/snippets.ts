// The same call from a program, at the public port. The address and the key are the program's own.
import type { Caller } from "./invoke";

/** shell quotes a text for a POSIX shell. */
const shell = (s: string) => "'" + s.replaceAll("'", `'\\''`) + "'";
/** ascii is a JSON text in which what cannot be seen is escaped, so that a copied snippet has no surprise. */
const ascii = (s: string) => s.replace(/[^\x20-\x7e\n]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

const headersOf = (who: Caller): [string, string][] =>
  (
    [
      ["x-user-id", who.user],
      ["x-agent-id", who.agent],
      ["x-session-id", who.session],
    ] as [string, string][]
  )
    .filter(([, v]) => v)
    .map(([k, v]) => [k, v.replace(/[^\x20-\x7e]/g, "?")]);

export function snippets(
  who: Caller,
  capability: string,
  tool: string,
  args: string,
): Record<"curl" | "curl, streamed" | "Python" | "TypeScript", string> {
  const path = `/v1/capabilities/${encodeURIComponent(capability)}/tools/${encodeURIComponent(tool)}`.replaceAll(
    "'",
    "%27",
  );
  const headers = headersOf(who),
    body = ascii(args);
  const lines = (of: (name: string, value: string) => string) => headers.map(([k, v]) => of(k, v)).join("");
  const curl = (command: string, to: string) =>
    `${command} "$CAPGATE_URL"${shell(to)} \\\n  -H "Authorization: Bearer $CAPGATE_KEY" \\\n` +
    `  -H 'Content-Type: application/json' \\\n${lines((k, v) => `  -H ${shell(`${k}: ${v}`)} \\\n`)}` +
    `  -d ${shell(body)}`;
  return {
    curl: curl("curl", path),
    "curl, streamed": curl("curl -N", path + "/stream"),
    Python: `import json, os, urllib.request

request = urllib.request.Request(
    os.environ["CAPGATE_URL"] + ${JSON.stringify(path)},
    data=json.dumps(json.loads(${JSON.stringify(body)})).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["CAPGATE_KEY"],
        "Content-Type": "application/json",
${lines((k, v) => `        ${JSON.stringify(k)}: ${JSON.stringify(v)},\n`)}    },
)
with urllib.request.urlopen(request) as answer:
    # 202: a person has to approve the call first
    print(answer.status, json.load(answer))`,
    TypeScript: `const answer = await fetch(process.env.CAPGATE_URL + ${JSON.stringify(path)}, {
  method: "POST",
  headers: {
    Authorization: "Bearer " + process.env.CAPGATE_KEY,
    "Content-Type": "application/json",
${lines((k, v) => `    ${JSON.stringify(k)}: ${JSON.stringify(v)},\n`)}  },
  body: JSON.stringify(${body}),
});
// 202: a person has to approve the call first
console.log(answer.status, await answer.json());`,
  };
}
