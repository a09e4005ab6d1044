// The small parts that screens are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Problem } from "../api/client";
import type { FeedState } from "../api/events";
import { own } from "./own";
import { keysOf } from "./pieces";
import { SortBy } from "./SortBy";
import type { Value } from "./sorted";
import { setTitle } from "./title";
import { inWords } from "./Untrusted";
import { useSorted } from "./useSorted";
import { useVirtual } from "./virtual";

export { own };

/** The meaning of a color. */
export type Tone = "good" | "wait" | "bad" | "plain" | "info";

/** Badge is a state in one word. The word says it; the color repeats it. */
export function Badge({
  tone = "plain",
  children,
  title,
}: {
  tone?: Tone;
  children: ComponentChildren;
  title?: string;
}) {
  return (
    <span class={"badge " + tone} title={title}>
      {children}
    </span>
  );
}

/** Screen is a page of the console: its heading, what stands beside it, and the rest. */
export function Screen({
  title,
  about,
  tools,
  children,
}: {
  title: string;
  about?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
}) {
  useEffect(() => setTitle(title), [title]);
  return (
    <>
      <header class="screen-head">
        <div>
          <h1 tabIndex={-1}>{title}</h1>
          {about && <p class="dim">{about}</p>}
        </div>
        {tools && <div class="tools">{tools}</div>}
      </header>
      {children}
    </>
  );
}

/** Card is a framed part of a screen. */
export function Card({
  title,
  tools,
  children,
  tone,
  class: more = "",
}: {
  title?: ComponentChildren;
  tools?: ComponentChildren;
  children?: ComponentChildren;
  tone?: Tone;
  class?: string;
}) {
  return (
    <section class={`card ${tone ?? ""} ${more}`}>
      {(title || tools) && (
        <header class="card-head">
          {title && <h2>{title}</h2>}
          {tools}
        </header>
      )}
      {children}
    </section>
  );
}

/** Column is a column of a Table. */
export interface Column<T> {
  title: string;
  cell(row: T): ComponentChildren;
  /** num aligns right, tight does not wrap: not for untrusted texts; wide takes almost a third, some a fifth. */
  kind?: "num" | "wide" | "some" | "tight";
  /** by returns the value by which the title sorts the rows; undefined: the title is no button. */
  by?: (row: T) => Value;
}

/**
 * Table shows rows; on a phone, each row is a block in which every value has its title, and the order is a field. Of a
 * long table, only the rows in sight are in the page.
 */
export function Table<T>({
  label,
  columns,
  rows,
  keyOf,
  empty,
  more,
}: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf(row: T): string;
  empty?: ComponentChildren;
  /** Loads further rows, of which a sorted table needs all. */
  more?: (() => void) | undefined;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const { sorted, partly, order, setOrder, orderOf, press } = useSorted(columns, rows, more);
  const keys = useMemo(() => keysOf(sorted, keyOf), [sorted]);
  const { pieces, all } = useVirtual(body, keys, 48);
  if (rows.length === 0) return <Empty>{empty ?? "There are none."}</Empty>;
  return (
    <>
      {partly && (
        <p class="dim small" role="status">
          Only the {rows.length.toLocaleString("en")} rows that are loaded are sorted. There are more.
        </p>
      )}
      {rows.length > 1 && <SortBy columns={columns} order={order} onOrder={setOrder} />}
      <table class="table" aria-label={label} aria-rowcount={all ? undefined : rows.length + 1}>
        <thead>
          <tr aria-rowindex={all ? undefined : 1}>
            {columns.map((c) => (
              <th scope="col" class={c.kind} aria-sort={orderOf(c)}>
                {c.by ? (
                  <button type="button" class="sort" onClick={() => press(c)}>
                    {c.title}
                  </button>
                ) : (
                  c.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {pieces.map((p) =>
            "gap" in p ? (
              // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a gap takes no focus
              <tr key={`gap ${p.before}`} class="gap" aria-hidden="true">
                <td colSpan={columns.length}>
                  <div style={{ height: `${p.gap}px` }} />
                </td>
              </tr>
            ) : (
              <tr key={"row " + keys[p.at]} data-row={keys[p.at]} aria-rowindex={all ? undefined : p.at + 2}>
                {columns.map((c) => (
                  <td class={c.kind} data-title={c.title}>
                    <div>{c.cell(sorted[p.at]!)}</div>
                  </td>
                ))}
              </tr>
            ),
          )}
        </tbody>
      </table>
    </>
  );
}

/** Empty says that there is nothing, and why or what to do. */
export const Empty = ({ children }: { children: ComponentChildren }) => <div class="empty">{children}</div>;

export const Loading = ({ what = "Loading" }: { what?: string }) => (
  <p class="loading" role="status">
    <span class="spinner" aria-hidden="true" />
    {what}…
  </p>
);

/** Replaces the gateway's words for programs by the words of the page. */
const inPageWords: Record<string, string> = {
  TENANT_REQUIRED:
    "Choose one tenant, at the top of the page or in the field Tenant. This cannot be done for all tenants at once.",
};

/** Failure says what went wrong, and offers to try again. */
export function Failure({ problem, retry }: { problem: Problem | undefined; retry?: () => void }) {
  if (!problem) return null;
  return (
    <div class="failure" role="alert">
      <p>
        {own(inPageWords, problem.reason) ?? inWords(problem.detail.replace(/; force \(--force\) [^;]*$/, ""), 1000)}
      </p>
      <p class="dim small">
        {problem.reason && <span class="mono">{inWords(problem.reason)}</span>}
        {problem.requestID && (
          <>
            {" "}
            · request <span class="mono">{inWords(problem.requestID)}</span>
          </>
        )}
      </p>
      {retry && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Live says whether a screen follows what happens. */
export function Live({ state }: { state: FeedState }) {
  const [tone, text] = { live: ["good", "Live"], connecting: ["plain", "Connecting"], stale: ["wait", "Reconnecting"] }[
    state
  ];
  return (
    <span class="live" role="status">
      <span class={"dot " + tone} aria-hidden="true" />
      {text}
    </span>
  );
}

/** Field is an input with its label, a hint, and what is wrong with it. */
export function Field({
  label,
  hint,
  error,
  children,
}: {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
  children: (id: string, about: string) => ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id, id + "-about")}
      <div id={id + "-about"}>
        {hint && <p class="dim small">{hint}</p>}
        {error && (
          <p class="wrong small" role="alert">
            {error}
          </p>
        )}
      </div>
    </div>
  );
}

/** Search filters a list. */
export function Search({ label, value, onInput }: { label: string; value: string; onInput(text: string): void }) {
  return (
    <input
      class="input search"
      type="search"
      aria-label={label}
      placeholder={label}
      value={value}
      maxLength={256}
      onInput={(e) => onInput(e.currentTarget.value)}
    />
  );
}

/** More is the button for the next page of a list. It presses itself when it comes in sight. */
export function More({
  more,
  loading = false,
  shown = 0,
  total,
}: {
  more: (() => void) | undefined;
  loading?: boolean;
  /** How many items are shown, and how many there are, if that is known. */
  shown?: number;
  total?: number | undefined;
}) {
  const box = useRef<HTMLParagraphElement>(null);
  const press = useRef(more);
  press.current = more;
  const there = more !== undefined;
  useEffect(() => {
    if (!there || !box.current) return;
    const seen = new IntersectionObserver((all) => all.some((e) => e.isIntersecting) && press.current?.(), {
      rootMargin: "600px",
    });
    seen.observe(box.current);
    return () => seen.disconnect();
  }, [there, shown]);
  return more ? (
    <p class="more" ref={box}>
      <button type="button" class="button" disabled={loading} onClick={more}>
        Show more
      </button>
      {shown > 0 && (
        <span class="dim small">
          {shown.toLocaleString("en")} {total ? `of ${total.toLocaleString("en")} shown` : "shown, there are more"}
        </span>
      )}
    </p>
  ) : null;
}

/**
 * Dialog asks a question in front of the page. The browser keeps the focus in it; Escape closes it. The focus begins at
 * the title, and Enter in a field submits nothing: a key acts on a button only after the person has moved to it.
 */
export function Dialog({
  title,
  onClose,
  keep,
  children,
}: {
  title: string;
  onClose(): void;
  /** keep is called instead of onClose for Escape and for a click beside the dialog, which has no button Close then. */
  keep?: () => void;
  children: ComponentChildren;
}) {
  const leave = keep ?? onClose;
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    // at once: the next key belongs to the dialog
    const back = document.activeElement as HTMLElement | null;
    const shown = dialog.current;
    shown?.showModal();
    heading.current?.focus();
    return () => {
      shown?.close();
      back?.focus?.();
    }; // behind an open dialog nothing takes the focus
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        leave();
      }}
      onKeyDown={(e) => {
        if (e.key === "Enter" && e.target instanceof HTMLInputElement) e.preventDefault();
        if (e.key !== "Escape" || !keep) return;
        e.preventDefault(); // a second Escape would close the dialog whatever onCancel does
        keep();
      }}
      onClick={(e) => {
        if (e.target === dialog.current) leave();
      }}
    >
      <div class="dialog">
        <header>
          <h2 id={id} ref={heading} tabIndex={-1}>
            {title}
          </h2>
          {!keep && (
            <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
              ✕
            </button>
          )}
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Facts are names with values. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
