// A call from the page, as its programs make it.
import { useEffect, useRef, useState } from "preact/hooks";
import { base, type Problem, raw } from "../api/client";
import type { Usable } from "../parts/connect/Connect";
import { pathOfTool } from "../parts/connect/snippets";
import { asProblem } from "../parts/load";
import { Badge, Failure, type Tone } from "../parts/parts";
import { inWords, Untrusted } from "../parts/Untrusted";

const mostShown = 64 * 1024; // characters of a result

interface Ended {
  tone: Tone;
  words: string;
  text: string;
}

/** Run calls a tool and shows its result. */
export function Run({ of, args, onEnd }: { of: Usable; args: string; onEnd(): void }) {
  const [ended, setEnded] = useState<Ended>();
  const [problem, setProblem] = useState<Problem>();
  const [running, setRunning] = useState<AbortController>();
  const last = useRef<AbortController>(undefined);
  useEffect(() => () => last.current?.abort(), []);
  const run = async () => {
    const stop = new AbortController();
    last.current = stop;
    setRunning(stop);
    setEnded(undefined);
    setProblem(undefined);
    try {
      const answer = await raw(pathOfTool(of.capability, of.tool), {
        method: "POST",
        body: args,
        signal: stop.signal,
        cache: "no-store",
        headers: { "Content-Type": "application/json" },
      });
      setEnded(endOf(answer, pretty(await answer.text())));
    } catch (err) {
      if (!stop.signal.aborted) setProblem(asProblem(err));
    }
    setRunning(undefined);
    onEnd();
  };
  return (
    <div class="stack">
      <div class="row">
        <button type="button" class="button primary" disabled={Boolean(running)} onClick={() => void run()}>
          Call it now
        </button>
        {running && (
          <button type="button" class="button" onClick={() => running.abort()}>
            End the call
          </button>
        )}
        {ended && <Badge tone={ended.tone}>{ended.words}</Badge>}
      </div>
      {ended && (
        <div class="code" tabIndex={0} role="group" aria-label="Result">
          <Untrusted text={ended.text} none="The result is empty." lines mono most={mostShown} />
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

function endOf(answer: Response, text: string): Ended {
  if (answer.status === 202) return { tone: "wait", words: "202: a person has to approve the call", text };
  if (answer.headers.get("X-Capgate-Outcome") === "tool_error")
    return { tone: "bad", words: `${answer.status}: the tool reports an error`, text };
  return { tone: "good", words: String(answer.status), text };
}

function pretty(text: string): string {
  if (text.length > mostShown) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
