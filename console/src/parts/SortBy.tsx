// The order of a table on a phone, where it has no titles to press.
import { useId } from "preact/hooks";

interface Props {
  columns: { title: string; by?: unknown }[];
  /** The title of a column, with - for the reverse; "": the order of the list. */
  order: string;
  onOrder(order: string): void;
}

export function SortBy({ columns, order, onOrder }: Props) {
  const id = useId();
  const titles = columns.filter((c) => c.by).map((c) => c.title);
  if (titles.length === 0) return null;
  return (
    <div class="field sort-by">
      <label for={id}>Sort by</label>
      <select id={id} class="input" value={order} onChange={(e) => onOrder(e.currentTarget.value)}>
        <option value="">default order</option>
        {titles.flatMap((title) => [
          <option value={title}>{title} ↑</option>,
          <option value={`-${title}`}>{title} ↓</option>,
        ])}
      </select>
    </div>
  );
}
