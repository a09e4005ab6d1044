// How a call differs from the last approved call of its tool.
import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Approval } from "../../api/types";
import { Ago } from "../../parts/Time";
import { Untrusted } from "../../parts/Untrusted";
import { shownValue } from "./Arguments";
import { ArgumentTable } from "./ArgumentTable";
import { argumentsOf, compare } from "./alike";
import { leafOf } from "./Compared";
import { byOf } from "./words";

interface Page {
  approvals?: Approval[];
}

const readAgain = (a: Approval) => get<Approval>(`/v1/approvals/${encodeURIComponent(a.id)}`, { tenant: a.tenant });

/** lastApproved reads the approval of the tool that was answered last; undefined: there is none. */
async function lastApproved(a: Approval): Promise<Approval | undefined> {
  const { tenant, capability, tool } = a;
  const pages = await Promise.all(
    ["approved", "used"].map((state) =>
      get<Page>("/v1/approvals", { tenant, capability, tool, state, page_size: 5 }).then((p) => p.approvals ?? []),
    ),
  );
  const all = pages.flat().filter((b) => b.id !== a.id && (b.state === "approved" || b.state === "used"));
  const last = all.sort((b, c) => Date.parse(c.answer_time ?? "") - Date.parse(b.answer_time ?? ""))[0];
  return last?.arguments_excerpt ? readAgain(last) : last;
}

export function SinceLast({ of: a }: { of: Approval }) {
  const [last, setLast] = useState<Approval>();
  useEffect(() => {
    let over = false;
    lastApproved(a).then(
      (b) => {
        if (!over) setLast(b);
      },
      () => {}, // the comparison is a help: the arguments themselves are below
    );
    return () => {
      over = true;
    };
  }, [a.tenant, a.id]);
  const before = last && argumentsOf(last),
    now = argumentsOf(a);
  if (!last || !before || !now) return null;
  const { differ: all, each } = compare([before, now]);
  const text = (at: number, key: string) => JSON.stringify(each[at]!.get(key)?.value);
  // Masked values cannot be compared.
  const differ = all.filter((d) => text(0, d.key) !== text(1, d.key)),
    masked = all.length - differ.length;
  const shown = (at: number, key: string) => {
    const leaf = each[at]!.get(key);
    return leaf ? shownValue(leaf.value, 200) : <span class="dim">absent</span>;
  };
  return (
    <details class="since-last small">
      <summary>
        {differ.length === 0
          ? "The same arguments as in the last approved call"
          : `${differ.length} ${differ.length === 1 ? "value differs" : "values differ"} from the last approved call`}
        {masked > 0 && ` (${masked} masked ${masked === 1 ? "value is" : "values are"} not compared)`}, approved{" "}
        <Ago time={last.answer_time} /> by <Untrusted text={byOf(last)} none="somebody" most={60} />
      </summary>
      {differ.length > 0 && (
        <ArgumentTable
          label="What differs from the last approved call"
          of={differ.map((d) =>
            leafOf(
              d,
              <span class="changed">
                <del>{shown(0, d.key)}</del> <ins>{shown(1, d.key)}</ins>
              </span>,
            ),
          )}
        />
      )}
    </details>
  );
}
