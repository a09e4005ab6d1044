// Questions before changes, fields, and what a role may not do.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../api/client";
import { ChooseTenant } from "./ChooseTenant";
import { asProblem } from "./load";
import { Badge, Dialog, Empty, Failure, Field, type Tone } from "./parts";
import { useSession } from "./session";
import { inWords } from "./Untrusted";

/** Trouble shows a failure. A route that this gateway does not serve is explained, and a missing tenant can be chosen. */
export function Trouble({ problem, retry, what }: { problem: Problem | undefined; retry?: () => void; what: string }) {
  if (
    problem &&
    (problem.status === 501 ||
      (problem.status === 404 && ["", "NO_SUCH_PATH", "NOT_FOUND", "ROUTE_UNKNOWN"].includes(problem.reason)))
  ) {
    return (
      <Empty>
        <b>This gateway does not serve {what}</b>
        {inWords(problem.detail, 500)}
      </Empty>
    );
  }
  if (problem?.reason === "TENANT_REQUIRED") return <ChooseTenant />;
  return <Failure problem={problem} {...(retry ? { retry } : {})} />;
}

interface Question {
  title: string;
  /** The word on the button that does it. */
  verb: string;
  danger?: boolean;
  disabled?: boolean;
  /** What the change does. It throws a Problem if it fails. */
  run(): Promise<unknown>;
  onClose(): void;
  children: ComponentChildren | ((problem: Problem | undefined) => ComponentChildren);
}

/** Ask is a question before a change. It closes after success. */
export function Ask({ title, verb, danger = false, disabled = false, run, onClose, children }: Question) {
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem(undefined);
    try {
      await run();
      onClose();
    } catch (err) {
      setProblem(asProblem(err));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="ask" onSubmit={(e) => void submit(e)}>
        {typeof children === "function" ? children(problem) : children}
        <Failure problem={problem} />
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={"button " + (danger ? "danger" : "primary")} disabled={busy || disabled}>
            {verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface TextProps {
  label: string;
  value: string;
  onInput(text: string): void;
  hint?: ComponentChildren;
  required?: boolean;
  disabled?: boolean;
  placeholder?: string;
  most?: number;
  /** Words to choose from; others are possible. */
  of?: string[];
}

/** Text is a field for one line. */
export function Text({
  label,
  value,
  onInput,
  hint,
  required = false,
  disabled = false,
  placeholder,
  most = 256,
  of,
}: TextProps) {
  return (
    <Field label={label} hint={hint}>
      {(id, about) => (
        <>
          <input
            id={id}
            class="input"
            value={value}
            maxLength={most}
            required={required}
            disabled={disabled}
            placeholder={placeholder}
            autoComplete="off"
            spellcheck={false}
            aria-describedby={about}
            list={of && id + "-of"}
            onInput={(e) => onInput(e.currentTarget.value)}
          />
          {of && (
            <datalist id={id + "-of"}>
              {of.map((o) => (
                <option key={o} value={o} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  );
}

/** Choice is a field with few answers: values with their words. */
export function Choice({
  label,
  value,
  of,
  onInput,
  hint,
}: {
  label: string;
  value: string;
  of: [string, string][];
  onInput(value: string): void;
  hint?: ComponentChildren;
}) {
  return (
    <Field label={label} hint={hint}>
      {(id, about) => (
        <select
          id={id}
          class="input"
          aria-describedby={about}
          value={value}
          onChange={(e) => onInput(e.currentTarget.value)}
        >
          {of.map(([v, words]) => (
            <option key={v} value={v}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Check is a question with yes or no. */
export function Check({
  label,
  about,
  checked,
  onInput,
}: {
  label: string;
  about?: string;
  checked: boolean;
  onInput(checked: boolean): void;
}) {
  return (
    <label class="choice">
      <input type="checkbox" checked={checked} onChange={(e) => onInput(e.currentTarget.checked)} />
      <span>
        <b>{label}</b>
        {about && <span class="dim small">{about}</span>}
      </span>
    </label>
  );
}

const tones: Record<string, Tone> = { allow: "good", ask: "wait", block: "bad" };

/** Verdict is allow, ask or block. */
export const Verdict = ({ of }: { of: string | undefined }) =>
  of ? (
    <Badge tone={Object.hasOwn(tones, of) ? tones[of]! : "plain"}>{inWords(of, 30)}</Badge>
  ) : (
    <span class="dim">–</span>
  );

/** arrows moves the focus between the links or tabs of a row, as the arrow keys say. */
export function arrows(e: KeyboardEvent) {
  const all = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("a[href], [role=tab]")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[e.key];
  if (at < 0 || to === undefined) return;
  e.preventDefault();
  all[(to + all.length) % all.length]!.focus();
}

/** Tabs are the parts of a screen. Each is an address. */
export function Tabs({ label, here, of }: { label: string; here: string; of: [string, string][] }) {
  return (
    <nav class="parts" aria-label={label} onKeyDown={arrows}>
      {of.map(([to, title]) => (
        <a key={to} href={to} aria-current={to === here ? "page" : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

/** Copy copies a text. Outside of secure contexts, browsers have only the old way. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const { say } = useSession();
  const at = useRef<HTMLButtonElement>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      at.current!.after(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      at.current!.focus();
    }
    say("Copied.");
  };
  return (
    <button ref={at} type="button" class="button small" onClick={() => void copy()}>
      {label}
    </button>
  );
}

/** useSlow is a value after it has stayed the same for some ms, so that a filter requests once and not for each key. */
export function useSlow<T>(value: T, ms = 300): T {
  const [slow, set] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => set(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return slow;
}

/** The tenant of a request that names one: "" if the screen shows all. */
export function useOneTenant(): string {
  const { me, tenant } = useSession();
  return me.tenant || (tenant === "-" ? "" : tenant);
}
