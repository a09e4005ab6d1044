// A table of values by their names.
import type { ComponentChildren } from "preact";

export interface Value {
  key: string;
  name: ComponentChildren;
  value: ComponentChildren;
  /** How deep the value is nested, 0 to 5. */
  depth?: number;
}

export function ArgumentTable({ label, of }: { label: string; of: Value[] }) {
  return (
    <table class="args">
      <caption class="hidden">{label}</caption>
      <colgroup>
        <col class="name" />
        <col />
      </colgroup>
      <thead class="hidden">
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Value</th>
        </tr>
      </thead>
      <tbody>
        {of.map((v) => (
          <tr key={v.key}>
            <th scope="row" class={v.depth === undefined ? undefined : "d" + v.depth}>
              {v.name}
            </th>
            <td>{v.value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
