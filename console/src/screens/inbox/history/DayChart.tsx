// The approvals of each day as bars. Screen readers get the same numbers as a table.
import type { ApprovalDay } from "../../../api/types";
import { dayOf } from "./day";
import { count } from "./numbers";

const parts = [
  ["approved", "approved"],
  ["denied", "denied"],
  ["expired", "expired"],
] as const;

const wide = 720,
  high = 90;
const name = (d: ApprovalDay) => dayOf(d.time);

export function DayChart({ days }: { days: ApprovalDay[] }) {
  const sums = days.map((d) => parts.reduce((sum, [part]) => sum + (d.counts?.[part] ?? 0), 0));
  const top = Math.max(0, ...sums),
    step = wide / Math.max(1, days.length);
  if (!top || days.length < 2) return null;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${wide} ${high + 22}`} aria-hidden="true" focusable="false">
        <line x1={0} x2={wide} y1={high} y2={high} class="grid" />
        {days.map((d, i) => {
          let y = high;
          return (
            <g key={i}>
              <title>{`${name(d)}: ${parts.map(([part]) => `${count(d.counts?.[part])} ${part}`).join(", ")}`}</title>
              {parts.map(([part, style]) => {
                const h = (high * (d.counts?.[part] ?? 0)) / top;
                y -= h;
                return (
                  h > 0 && <rect key={part} x={(i + 0.1) * step} width={0.8 * step} y={y} height={h} class={style} />
                );
              })}
            </g>
          );
        })}
        <text x={0} y={high + 18}>
          {name(days[0]!)}
        </text>
        <text x={wide} y={high + 18} text-anchor="end">
          {name(days.at(-1)!)}
        </text>
      </svg>
      <figcaption class="legend small dim">
        {parts.map(([part, style]) => (
          <span key={part}>
            <i class={style} />
            {part}
          </span>
        ))}
      </figcaption>
      <div class="hidden">
        <table>
          <caption>Approvals by day</caption>
          <thead>
            <tr>
              <th scope="col">Day</th>
              {parts.map(([part]) => (
                <th key={part} scope="col">
                  {part}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {days
              .filter((_, i) => sums[i])
              .map((d, i) => (
                <tr key={i}>
                  <th scope="row">{name(d)}</th>
                  {parts.map(([part]) => (
                    <td key={part}>{count(d.counts?.[part])}</td>
                  ))}
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}
