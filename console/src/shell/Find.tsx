// One box for everything: request ids, approvals, tools, users, backends, keys, pages.
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useSlow } from "../parts/ask";
import { Dialog } from "../parts/parts";
import { useSession } from "../parts/session";
import { inWords, Untrusted } from "../parts/Untrusted";
import { type Found, find, pagesOf, type Results } from "./find";
import "./find.css";

const combobox = { role: "combobox" as const, list: undefined, "aria-expanded": true };

export function Find({ onClose }: { onClose(): void }) {
  const { me, tenant } = useSession();
  const [query, setQuery] = useState("");
  const [results, setResults] = useState<Results>({ found: [], failed: [] });
  const [shown, setShown] = useState<string>(); // what the results are for
  const [busy, setBusy] = useState(false);
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  /** Enter was pressed before the results came. */
  const early = useRef(false);
  const list = useId();
  const text = query.trim(),
    wanted = useSlow(text, 200);
  const latest = useRef(text);
  latest.current = text;
  useLayoutEffect(() => field.current?.focus(), []); // at once: the next letter is for it
  const go = (f: Found | undefined) => {
    if (!f) return;
    if (f.outside) window.open(f.to, "_blank", "noopener,noreferrer");
    else location.hash = f.to;
    onClose();
  };
  const show = (r: Results) => {
    setResults(r);
    setShown(wanted);
    setBusy(false);
    if (!early.current || wanted !== latest.current) return;
    early.current = false;
    go(r.found[0]);
  };
  useEffect(() => {
    setAt(0);
    if (wanted.length < 2) {
      show({ found: pagesOf(me, wanted), failed: [] });
      return;
    }
    const stop = new AbortController();
    setBusy(true);
    void find(me, tenant, wanted, stop.signal).then((r) => {
      if (!stop.signal.aborted) show(r);
    });
    return () => stop.abort();
  }, [wanted, tenant]);
  const { found, failed } = results;
  const keys = (e: KeyboardEvent) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key];
    if (to !== undefined && found.length) {
      e.preventDefault();
      setAt((to + found.length) % found.length);
    }
    if (e.key !== "Enter") return;
    if (shown !== text) early.current = true;
    else go(found[at]);
  };
  useEffect(() => document.getElementById(`${list}-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  return (
    <Dialog title="Find" onClose={onClose}>
      <input
        ref={field}
        class="input find"
        type="text"
        {...combobox}
        aria-label="Find"
        aria-controls={list}
        aria-activedescendant={found.length ? `${list}-${at}` : undefined}
        placeholder="Request id, approval, tool, user, backend, key or page"
        autoComplete="off"
        spellcheck={false}
        maxLength={256}
        value={query}
        onInput={(e) => {
          early.current = false;
          setQuery(e.currentTarget.value);
        }}
        onKeyDown={keys}
      />
      <div id={list} role="listbox" aria-label="Results" class="found">
        {found.map((f, i) => (
          <a
            key={f.to + i}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === at}
            tabIndex={-1}
            href={f.to}
            target={f.outside ? "_blank" : undefined}
            rel={f.outside ? "noopener noreferrer" : undefined}
            onClick={() => onClose()}
          >
            <span class="kind dim small">{f.kind}</span>
            <span class="what">
              <Untrusted text={f.text} mono={!["Page", "Search"].includes(f.kind)} most={80} />
              {f.about && <span class="dim small"> {inWords(f.about, 160)}</span>}
            </span>
          </a>
        ))}
      </div>
      <p class="dim small" role="status">
        {busy
          ? "Searching…"
          : failed.length
            ? `Not searched, because the gateway did not respond: ${failed.join(", ")}.`
            : wanted.length < 2
              ? "Two letters or more search everything that you may see."
              : found.every((f) => f.kind === "Search")
                ? "Nothing matches in the lists or among the last calls."
                : ""}
      </p>
    </Dialog>
  );
}
