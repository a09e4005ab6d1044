// A call from the page, as its programs make it.
import { useEffect, useRef, useState } from "preact/hooks";
import { base, type Problem, raw } from "../api/client";
import type { Usable } from "../parts/connect/Connect";
import { pathOfTool } from "../parts/connect/snippets";
import { asProblem } from "../parts/load";
import { Badge, Failure, type Tone } from "../parts/parts";
import { inWords, Untrusted } from "../parts/Untrusted";

const mostShown = 64 * 1024; // characters of a result

/** What is on the screen of a call that runs, or has ended. */
interface Shown {
  tone: Tone;
  words: string;
  text: string;
}

const jsonLines = "application/x-ndjson";

interface Props {
  of: Usable;
  /** undefined: the field has no arguments, and the tool cannot be called. */
  args: string | undefined;
  onEnd(): void;
}

/**
 * Run calls a tool and shows its result, at its end or as it comes. A call that needs approval is repeated with the
 * approval.
 */
export function Run({ of, args, onEnd }: Props) {
  const [shown, setShown] = useState<Shown>();
  const [problem, setProblem] = useState<Problem>();
  const [running, setRunning] = useState<AbortController>();
  const last = useRef<AbortController>(undefined);
  useEffect(() => () => last.current?.abort(), []);
  const [asked, setAsked] = useState<{ args: string; id: string }>();
  const approval = asked?.args === args ? asked?.id : undefined;
  const run = async (stream: boolean) => {
    if (args === undefined) return;
    const stop = new AbortController();
    last.current = stop;
    setRunning(stop);
    setShown(undefined);
    setProblem(undefined);
    try {
      const answer = await raw(pathOfTool(of.capability, of.tool) + (stream ? "/stream" : ""), {
        method: "POST",
        body: args,
        signal: stop.signal,
        cache: "no-store",
        headers: {
          "Content-Type": "application/json",
          ...(stream ? { Accept: jsonLines } : {}),
          ...(approval ? { "x-approval-id": approval } : {}),
        },
      });
      if (answer.headers.get("Content-Type")?.startsWith(jsonLines)) {
        const lines = await follow(answer, (text) => setShown({ tone: "info", words: "streaming", text }));
        setShown(endOfLines(answer, lines));
        setAsked(undefined);
      } else {
        const text = await answer.text();
        const id = answer.status === 202 ? approvalIn(text) : undefined;
        setAsked(id ? { args, id } : undefined);
        setShown(endOf(answer, pretty(text)));
      }
    } catch (err) {
      if (!stop.signal.aborted) {
        setProblem(asProblem(err));
        setAsked(undefined);
      }
    }
    setRunning(undefined);
    onEnd();
  };
  const off = Boolean(running) || args === undefined;
  return (
    <div class="stack">
      <div class="row">
        <button type="button" class="button primary" disabled={off} onClick={() => void run(false)}>
          {approval ? "Call it with the approval" : "Call it now"}
        </button>
        <button type="button" class="button" disabled={off} onClick={() => void run(true)}>
          Stream it
        </button>
        {running && (
          <button type="button" class="button" onClick={() => running.abort()}>
            End the call
          </button>
        )}
        {shown && <Badge tone={shown.tone}>{shown.words}</Badge>}
      </div>
      {shown && (
        <div class="code" tabIndex={0} role="group" aria-label="Result">
          <Untrusted text={shown.text} none="The result is empty." lines mono most={mostShown} />
        </div>
      )}
      <Failure problem={problem} />
      {problem?.reason && (
        <p class="small">
          <a href={`${base}/docs/errors#${encodeURIComponent(problem.reason)}`}>
            What {inWords(problem.reason, 60)} means
          </a>
        </p>
      )}
    </div>
  );
}

/** approvalIn returns the id of the approval that a response asks for. */
function approvalIn(text: string): string | undefined {
  try {
    const { approval_id: id } = JSON.parse(text) as { approval_id?: unknown };
    return typeof id === "string" && id ? id : undefined;
  } catch {
    return undefined;
  }
}

function endOf(answer: Response, text: string): Shown {
  if (answer.status === 202) return { tone: "wait", words: "202: a person has to approve the call", text };
  if (answer.headers.get("X-Capgate-Outcome") === "tool_error")
    return { tone: "bad", words: `${answer.status}: the tool reports an error`, text };
  return { tone: "good", words: String(answer.status), text };
}

/** follow reports the text of a stream as it comes, up to what is shown, and returns it. */
async function follow(answer: Response, tell: (text: string) => void): Promise<string> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return text;
    text = (text + value).slice(0, mostShown + 1);
    tell(text);
  }
}

/** endOfLines reads the last line of a stream, which says how it ended. */
function endOfLines(answer: Response, text: string): Shown {
  if (text.length > mostShown) return { tone: "info", words: `${answer.status}: only the beginning is shown`, text };
  try {
    const last = JSON.parse(text.trimEnd().split("\n").pop() ?? "") as { error?: string; problem?: unknown };
    if (last.problem) return { tone: "bad", words: "the stream ended with an error", text };
    if (last.error) return { tone: "bad", words: "the tool reports an error", text };
  } catch {
    return { tone: "bad", words: "the stream was cut off", text };
  }
  return { tone: "good", words: `${answer.status}: the stream has ended`, text };
}

function pretty(text: string): string {
  if (text.length > mostShown) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
