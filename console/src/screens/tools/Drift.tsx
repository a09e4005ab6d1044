// What changed in a tool since it was accepted, and the question before the change is accepted.
import { useMemo, useState } from "preact/hooks";
import { post } from "../../api/client";
import type { CatalogEntry, Version } from "../../api/types";
import { Ask, Trouble } from "../../parts/ask";
import type { Loaded } from "../../parts/load";
import { Card, Loading } from "../../parts/parts";
import { allTenants, useMay } from "../../parts/roles";
import { useSession } from "../../parts/session";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { diff, type Line, pretty } from "./diff";

interface Props {
  of: Loaded<CatalogEntry>;
  capability: string;
  tool: string;
  onAccept(): void;
}

export function Drift({ of: { value, error, reload }, capability, tool, onAccept }: Props) {
  const { say } = useSession();
  const { may, why } = useMay("operator", allTenants);
  const [asked, ask] = useState(false);
  const now = value?.tools?.find((t) => t.name === tool);
  const accept = async () => {
    await post(`/v1/capabilities/${encodeURIComponent(capability)}/tools/${encodeURIComponent(tool)}:accept`, {
      hash: now?.hash,
    });
    say(`This version of ${inWords(tool, 60)} is accepted.`);
    reload();
    onAccept();
  };
  if (value && !now?.drifted) return null;
  return (
    <Card
      title="It has changed since it was accepted"
      tools={
        <button
          type="button"
          class="button small primary"
          disabled={!may || !now}
          title={why}
          onClick={() => ask(true)}
        >
          Accept this version
        </button>
      }
    >
      <p class="dim">Calls that would be allowed need approval until this version is accepted.{!may && ` ${why}.`}</p>
      <Trouble problem={error} retry={reload} what="the catalog" />
      {!value && !error && <Loading />}
      {now && <Difference was={now.accepted} now={now} />}
      {asked && (
        <Ask title="Accept this version?" verb="Accept" run={accept} onClose={() => ask(false)}>
          <p>
            <Untrusted text={capability} mono most={80} /> /{" "}
            <b>
              <Untrusted text={tool} mono most={120} />
            </b>
          </p>
          <p class="dim small">
            Hash <Untrusted text={now?.hash} mono most={80} />
          </p>
          <p class="dim">
            Its description and schema count as right from then on, and calls need no approval for the change.
          </p>
        </Ask>
      )}
    </Card>
  );
}

/** Difference compares a version of a tool, which may be stored no longer, with the one that it has now. */
export function Difference({ was, now }: { was: Version | undefined; now: Version }) {
  const lines = useMemo(
    () =>
      was
        ? folded([
            ...diff(was.description ?? "", now.description ?? ""),
            { sign: " ", text: "" },
            ...diff(pretty(was.input_schema), pretty(now.input_schema)),
            ...(was.output_schema || now.output_schema
              ? [{ sign: " " as const, text: "" }, ...diff(pretty(was.output_schema), pretty(now.output_schema))]
              : []),
          ])
        : [],
    [was, now],
  );
  if (!was)
    return (
      <>
        <p class="note wait">
          The accepted version is no longer stored, so there is no comparison. Only its hash is kept.
        </p>
        <p>
          <Untrusted text={now.description} lines most={4000} />
        </p>
      </>
    );
  return (
    <ul class="diff" tabIndex={0} aria-label="The accepted version, compared with this one">
      {lines.map((l, i) => (
        <li
          key={i}
          class={l.sign === "+" ? "added" : l.sign === "-" ? "removed" : l.sign === "…" ? "gap" : ""}
          data-sign={l.sign}
        >
          {l.sign !== " " && l.sign !== "…" && <span class="hidden">{l.sign === "+" ? "added: " : "removed: "}</span>}
          {l.text && <Untrusted text={l.text} lines most={500} />}
        </li>
      ))}
    </ul>
  );
}

const around = 3;

/** folded leaves out what is far from any change. */
function folded(lines: Line[]): { sign: Line["sign"] | "…"; text: string }[] {
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - around), i + around + 1).some((l) => l.sign !== " "));
  const out: { sign: Line["sign"] | "…"; text: string }[] = [];
  let skipped = 0;
  const skip = () => {
    if (skipped) out.push({ sign: "…", text: `${skipped} equal ${skipped === 1 ? "line" : "lines"}` });
    skipped = 0;
  };
  lines.forEach((l, i) => {
    if (!near[i]) {
      skipped++;
      return;
    }
    skip();
    out.push(l);
  });
  skip();
  return out;
}
