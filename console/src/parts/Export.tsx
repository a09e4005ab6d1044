// A list as a file: CSV for spreadsheets, JSON for programs.
import { useRef, useState } from "preact/hooks";
import type { Problem } from "../api/client";
import { csvOf } from "./csv";
import { allOf, type Request } from "./list";
import { asProblem } from "./load";
import { Dialog, Failure, Loading } from "./parts";
import { useSession } from "./session";

/** A file has at most so many rows. */
const most = 10_000;

const types = { csv: "text/csv;charset=utf-8", json: "application/json" };
type Format = keyof typeof types;

function save(name: string, type: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Export saves all pages of a list, with the filters of the screen. */
export function Export({ of, name }: { of: Request; name: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Export
      </button>
      {open && <Formats of={of} name={name} onClose={() => setOpen(false)} />}
    </>
  );
}

function Formats({ of, name, onClose }: { of: Request; name: string; onClose(): void }) {
  const { say } = useSession();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const stop = useRef(new AbortController());
  const close = () => {
    stop.current.abort();
    onClose();
  };
  const run = async (format: Format) => {
    setBusy(true);
    setProblem(undefined);
    try {
      const { items, more } = await allOf<object>(of, most, stop.current.signal);
      const text = format === "csv" ? csvOf(items) : JSON.stringify(items, undefined, 2) + "\n";
      save(`${name}.${format}`, types[format], text);
      const rows = `${items.length.toLocaleString("en")} ${items.length === 1 ? "row" : "rows"}`;
      say(more ? `Saved the first ${rows}. There are more: narrow the filters.` : `Saved ${rows}.`);
      close();
    } catch (err) {
      if (!stop.current.signal.aborted) setProblem(asProblem(err));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Export ${name}`} onClose={close}>
      <p class="dim">
        All pages with the filters of this screen, at most {most.toLocaleString("en")} rows. In CSV, a text that begins
        like a formula gets an apostrophe in front.
      </p>
      {busy && <Loading what="Reading all pages" />}
      <Failure problem={problem} />
      <div class="actions">
        {(Object.keys(types) as Format[]).map((format) => (
          <button key={format} type="button" class="button" disabled={busy} onClick={() => void run(format)}>
            {format.toUpperCase()}
          </button>
        ))}
      </div>
    </Dialog>
  );
}
