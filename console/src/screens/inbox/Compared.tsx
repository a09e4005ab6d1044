// The arguments of several calls: what they have in common once, and what differs for each.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Approval } from "../../api/types";
import { Untrusted } from "../../parts/Untrusted";
import { Arguments, plain, shownValue } from "./Arguments";
import { ArgumentTable } from "./ArgumentTable";
import { argumentsOf, compare, type Leaf } from "./alike";
import { keyOf } from "./feed";
import { ToolChange } from "./ToolChange";

/** Path names a value by the names that lead to it. */
export function Path({ of }: { of: string[] }) {
  if (!of.length) return <span class="dim">all arguments</span>;
  return (
    <>
      {of.map((name, i) => (
        <>
          {i > 0 && " › "}
          <Untrusted text={plain(name)} mono most={80} none="(empty name)" />
        </>
      ))}
    </>
  );
}

/** leafOf is a row of a table of values. */
export const leafOf = (leaf: { key: string; path: string[] }, value: ComponentChildren) => ({
  key: leaf.key,
  name: <Path of={leaf.path} />,
  value,
});

const shown = (leaf: Leaf | undefined) => (leaf ? shownValue(leaf.value, Infinity) : <span class="dim">absent</span>);

interface Props {
  of: Approval[];
  /** What stands before the arguments of each call. */
  head(a: Approval): ComponentChildren;
}

/** ComparedCalls shows all arguments, masks and warnings of similar calls. */
export function ComparedCalls({ of, head }: Props) {
  const compared = useMemo(() => {
    const nodes = of.map((a) => argumentsOf(a)).filter((n) => n !== undefined);
    return nodes.length === of.length ? compare(nodes) : undefined;
  }, [of]);
  return (
    <div class="stack">
      {of[0] && <ToolChange of={of[0]} all />}
      {compared && of.length > 1 && compared.same.length > 0 && (
        <section>
          <h3>The same in all</h3>
          <ArgumentTable
            label="The same in all"
            of={compared.same.map((l) => leafOf({ key: JSON.stringify(l.path), path: l.path }, shown(l)))}
          />
        </section>
      )}
      <ol class="compared">
        {of.map((a, i) => (
          <li key={keyOf(a)}>
            {head(a)}
            {!compared || of.length === 1 ? (
              <Arguments of={a} all />
            ) : compared.differ.length ? (
              <ArgumentTable
                label={`Arguments of call ${i + 1}`}
                of={compared.differ.map((d) => leafOf(d, shown(compared.each[i]!.get(d.key))))}
              />
            ) : (
              <p class="dim small">Its arguments are those above.</p>
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}
