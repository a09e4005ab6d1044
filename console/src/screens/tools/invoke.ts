// A call from the playground: its records as they come, and the approval that it may need first.
import { raw } from "../../api/client";
import { parser } from "../../api/parser";

export interface Caller {
  tenant: string;
  user: string;
  agent: string;
  session: string;
}

/** An event of a call: a piece of the result, its end, or an approval that it waits for. */
export type Told =
  | { kind: "chunk"; data: unknown; base64?: string }
  | { kind: "done"; error?: string }
  | { kind: "failed"; reason: string; detail: string }
  | { kind: "ask"; id: string; detail: string; expires: string };

interface Record {
  data?: unknown;
  data_base64?: string;
  error?: string;
  problem?: { reason?: string; detail?: string };
}

/** invoke makes a call and reports its events. The text of the arguments is sent as it is. */
export async function invoke(
  who: Caller,
  capability: string,
  tool: string,
  args: string,
  approval: string,
  signal: AbortSignal,
  tell: (t: Told) => void,
) {
  const names = JSON.stringify({ ...who, capability, tool, approval_id: approval || undefined });
  const answer = await raw("/v1/playground:invoke", {
    method: "POST",
    body: `${names.slice(0, -1)},"arguments":${args}}`,
    signal,
    cache: "no-store",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
  });
  if (!answer.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    const body = (await answer.json()) as {
      approval_id?: string;
      detail?: string;
      expire_time?: string;
      error?: string;
      result?: unknown;
    };
    if (body.approval_id)
      tell({ kind: "ask", id: body.approval_id, detail: body.detail ?? "", expires: body.expire_time ?? "" });
    else {
      tell({ kind: "chunk", data: body.result ?? body });
      tell({ kind: "done", ...(body.error ? { error: body.error } : {}) });
    }
    return;
  }
  let over = false;
  const parse = parser(
    ({ event, data }) => {
      const r = JSON.parse(data) as Record;
      if (event === "chunk") tell({ kind: "chunk", data: r.data, ...(r.data_base64 ? { base64: r.data_base64 } : {}) });
      if (event === "done") tell({ kind: "done", ...(r.error ? { error: r.error } : {}) });
      if (event === "error") tell({ kind: "failed", reason: r.problem?.reason ?? "", detail: r.problem?.detail ?? "" });
      over ||= event === "done" || event === "error";
    },
    () => {},
  );
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    parse(value);
  }
  if (!over) tell({ kind: "failed", reason: "ANSWER_CUT_OFF", detail: "The stream ended before its last record." });
}
