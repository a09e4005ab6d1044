// Requests of scenarios to a gateway, beside those of the page.

/** invoke calls the tool echo as the user ann and the agent bot, and waits for an answer. */
export function invoke(base, capability, args, wait = 60, more = {}) {
  return fetch(`${base}/v1/capabilities/${capability}/invoke`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "x-user-id": "ann",
      "x-agent-id": "bot",
      Prefer: `wait=${wait}`,
      ...more,
    },
    body: JSON.stringify({ tool_name: "echo", args }),
  });
}

export async function post(base, path, body = {}) {
  const answer = await fetch(base + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}
