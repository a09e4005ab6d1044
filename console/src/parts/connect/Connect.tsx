// How a program connects: its tools, a call of one of them in several languages, and the entry of MCP clients.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Copy, Verdict } from "../ask";
import { Card, Empty, Loading, Search } from "../parts";
import { inWords, Untrusted } from "../Untrusted";
import { ArgumentsField, wrongIn } from "./ArgumentsField";
import { sample } from "./sample";
import { files, type Language, languages, snippets, type Target } from "./snippets";
import "./connect.css";

/** Usable is a tool that callers may use. Its details come later, where onShow requests them. */
export interface Usable {
  capability: string;
  tool: string;
  policy?: string | undefined;
  description?: string | undefined;
  schema?: unknown;
}

const first = 3; // tools that are shown before a search
/** A search shows so many tools. */
export const most = 12;

interface Props {
  target: Target;
  tools: Usable[];
  /** Heading of the list. */
  title?: string;
  /** The list is of so many tools that some are missing. */
  partial?: boolean;
  /** The words of the search, where tools are searched elsewhere, too. */
  onSearch?: (text: string) => void;
  /** Other tools are on their way. */
  loading?: boolean;
  onShow?: (shown: Usable[]) => void;
  /** Content below the programs. args is undefined while the field has no arguments. */
  below?: (of: Usable, args: string | undefined) => preact.ComponentChildren;
}

const nameOf = (t: Usable) => t.capability + "\n" + t.tool;

export function Connect({
  target,
  tools,
  title = "Your tools",
  partial = false,
  onSearch,
  loading = false,
  onShow,
  below,
}: Props) {
  const [chosen, choose] = useState("");
  const [search, setSearch] = useState("");
  const wanted = search.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = tools.filter((t) => {
    const words = `${t.capability} ${t.tool} ${t.description ?? ""}`.toLowerCase();
    return wanted.every((w) => words.includes(w));
  });
  const shown = found.slice(0, wanted.length > 0 ? most : first);
  const of = shown.find((t) => nameOf(t) === chosen) ?? shown[0];
  const key = shown.map(nameOf).join("\n\n");
  useEffect(() => onShow?.(shown), [key]);
  return (
    <div class="connect">
      <Card title={search && onSearch ? title : `${title} (${tools.length}${partial ? "+" : ""})`}>
        {(search || tools.length > first) && (
          <p class="find">
            <Search
              label="Find a tool"
              value={search}
              onInput={(text) => {
                setSearch(text);
                onSearch?.(text);
              }}
            />
          </p>
        )}
        {shown.length === 0 && loading && <Loading />}
        {shown.length === 0 && !loading && (
          <Empty>
            {partial ? `None of the ${tools.length} listed tools match. There are more.` : "No tools match."}
          </Empty>
        )}
        <ul class="usable">
          {shown.map((t, i) => (
            <li key={`${i} ${nameOf(t)}`}>
              <button type="button" aria-pressed={t === of} onClick={() => choose(nameOf(t))}>
                <span class="row">
                  <b>
                    <Untrusted text={t.tool} mono most={100} />
                  </b>
                  {t.policy && <Verdict of={t.policy} />}
                </span>
                <span class="dim small">
                  <Untrusted text={t.capability} mono most={100} />
                  {t.description && (
                    <>
                      {" · "}
                      {inWords(t.description, 160)}
                    </>
                  )}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {found.length > shown.length && (
          <p class="dim small note-below" role="status">
            {found.length - shown.length} {partial ? "and more" : "more"}: find them by words of their names.
          </p>
        )}
      </Card>
      {of && <Program key={nameOf(of)} of={of} target={target} below={below} />}
    </div>
  );
}

/** A program of the caller acts as the key alone. */
const asTheKey = { user: "", agent: "", session: "" };

function Program({ of, target, below }: { of: Usable; target: Target; below: Props["below"] }) {
  const start = useMemo(() => JSON.stringify(sample(of.schema)), [of.schema]);
  const [edited, edit] = useState<string>();
  const text = edited ?? start;
  const wrong = useMemo(() => wrongIn(text), [text]);
  const args = wrong ? start : text;
  return (
    <Card
      title={
        <>
          Call <Untrusted text={of.tool} mono most={100} />
        </>
      }
    >
      <div class="stack">
        {of.policy === "ask" && <p class="note wait">A person has to approve each call of this tool.</p>}
        <ArgumentsField label="Arguments" text={text} onText={edit} short />
        <Snippets of={snippets(target, asTheKey, of.capability, of.tool, args)} target={target} />
        {below?.(of, wrong ? undefined : args)}
      </div>
    </Card>
  );
}

/** Snippets shows one of the programs, which has nothing but printable ASCII. */
export function Snippets({ of, target }: { of: Record<Language, string>; target: Target }) {
  const [name, setName] = useState<Language>("curl");
  const run: Record<string, string> = {
    "call.py": "python3 call.py",
    "call.mts": "node call.mts (Node.js 22.18 or later)",
    "call.go": "go run call.go",
  };
  const file = files[name];
  return (
    <div class="snippets">
      <div class="row tongues" role="group" aria-label="Language">
        {languages.map((n) => (
          <button key={n} type="button" class="button small" aria-pressed={n === name} onClick={() => setName(n)}>
            {n}
          </button>
        ))}
        <span class="grow" />
        <Copy text={of[name]} label={`Copy ${name}`} />
      </div>
      <pre class="code" tabIndex={0} role="group" aria-label={`The call with ${name}`} data-language={name}>
        {of[name]}
      </pre>
      {(target.key || !target.url || file) && (
        <p class="dim small">
          {file && (
            <>
              <span class="mono">{file}</span>: <span class="mono">{run[file]}</span>.{" "}
            </>
          )}
          {target.key && "CAPGATE_KEY is a variable with the key. "}
          {!target.url && "CAPGATE_URL is a variable with the address of the public port."}
        </p>
      )}
    </div>
  );
}
