// Charts of a history. Screen readers get the same numbers as a table.
import type { ComponentChildren } from "preact";
import type { HistoryMark, HistoryStep } from "../../api/types";
import { duration, name, nice, percent, place, runs } from "./steps";

const wide = 720,
  left = 104,
  above = 14,
  bottom = 26;
const width = wide - left;

const parts = [
  ["answered", "ok", "answered"],
  ["asked", "waiting", "asked"],
  ["refused", "refused", "refused"],
  ["tool_errors", "tools", "tool error"],
  ["failed", "failed", "failed"],
] as const;

interface Props {
  steps: HistoryStep[];
  marks: HistoryMark[];
}

/** Frame draws the axes, the marks and the times of a chart. */
function Frame({
  steps,
  marks,
  high,
  top,
  unit,
  children,
}: Props & { high: number; top: number; unit(n: number): string; children: ComponentChildren }) {
  return (
    <svg viewBox={`0 0 ${wide} ${above + high + bottom}`} aria-hidden="true" focusable="false">
      {[0, top / 2, top].map((n) => {
        const y = above + high - (high * n) / top;
        return (
          <g key={n}>
            <line x1={left} x2={wide} y1={y} y2={y} class="grid" />
            <text x={left - 8} y={y + 4} text-anchor="end">
              {unit(n)}
            </text>
          </g>
        );
      })}
      {children}
      {marks.map((m, i) => {
        const at = place(m, steps);
        if (at === undefined) return null;
        const x = left + at * width;
        return <line key={i} x1={x} x2={x} y1={above} y2={above + high} class="mark" />;
      })}
      {[0, 1, 2, 3].map((n) => {
        const step = steps[Math.floor((n * steps.length) / 4)];
        return (
          step && (
            <text key={n} x={left + (n * width) / 4} y={above + high + 20}>
              {name(step, steps)}
            </text>
          )
        );
      })}
    </svg>
  );
}

/** CallsChart has the calls by step, as bars. */
export function CallsChart({ steps, marks }: Props) {
  const high = 150,
    top = nice(Math.max(0, ...steps.map((s) => s.sums?.calls ?? 0)), 2),
    step = width / Math.max(1, steps.length);
  return (
    <figure class="chart">
      <Frame steps={steps} marks={marks} high={high} top={top} unit={short}>
        {steps.map((s, i) => {
          let y = above + high;
          return (
            <g key={i}>
              {parts.map(([field, style]) => {
                const h = (high * (s.sums?.[field] ?? 0)) / top;
                y -= h;
                return (
                  h > 0 && (
                    <rect key={field} x={left + (i + 0.1) * step} width={step * 0.8} y={y} height={h} class={style} />
                  )
                );
              })}
            </g>
          );
        })}
      </Frame>
      <figcaption class="legend small dim">
        {parts.map(([field, style, text]) => (
          <span key={field}>
            <i class={style} />
            {text}
          </span>
        ))}
        <span>
          <i class="mark" />
          start, reload or drain
        </span>
      </figcaption>
      <Numbers
        caption="Calls by step of time"
        heads={["Calls", "Asked", "Refused", "Tool errors", "Failed"]}
        steps={steps.filter((s) => s.sums?.calls)}
        cells={(s) => [s.sums?.calls, s.sums?.asked, s.sums?.refused, s.sums?.tool_errors, s.sums?.failed]}
        all={steps}
      />
    </figure>
  );
}

/** TimesChart has the median and the 99th percentile of the time of calls, as lines. */
export function TimesChart({ steps, marks }: Props) {
  const high = 110,
    top = nice(Math.max(0, ...steps.map((s) => s.sums?.p99_ms ?? 0)), 10);
  const path = (field: "p50_ms" | "p99_ms") =>
    runs(steps.map((s) => s.sums?.[field] || undefined)).map((run) =>
      run
        .map(([i, v], n) => {
          const x = left + ((i + 0.5) * width) / steps.length,
            y = above + high - (high * v) / top;
          return `${n ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}${run.length === 1 ? "h2" : ""}`;
        })
        .join(""),
    );
  return (
    <figure class="chart">
      <Frame steps={steps} marks={marks} high={high} top={top} unit={(n) => (n ? duration(n) : "0")}>
        <path d={path("p99_ms").join("")} class="p99" />
        <path d={path("p50_ms").join("")} class="p50" />
      </Frame>
      <figcaption class="legend small dim">
        <span>
          <i class="p50" />
          p50
        </span>
        <span>
          <i class="p99" />
          p99
        </span>
        <span>latency of calls that reached a backend, without the wait for approval</span>
      </figcaption>
      <Numbers
        caption="Time of calls by step of time"
        heads={["Median", "99%"]}
        steps={steps.filter((s) => s.sums?.p99_ms)}
        cells={(s) => [duration(s.sums?.p50_ms), duration(s.sums?.p99_ms)]}
        all={steps}
      />
    </figure>
  );
}

/** StateChart has the part of backends that got calls, as a strip. */
export function StateChart({ steps }: { steps: HistoryStep[] }) {
  const step = width / Math.max(1, steps.length);
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${wide} 22`} aria-hidden="true" focusable="false">
        <text x={left - 8} y={15} text-anchor="end">
          up
        </text>
        {steps.map((s, i) => {
          const up = s.sums?.usable;
          const style = up === undefined ? "unknown" : up >= 1 ? "up" : up > 0 ? "partly" : "down";
          return <rect key={i} x={left + i * step} width={step} y={3} height={16} class={style} />;
        })}
      </svg>
      <figcaption class="legend small dim">
        <span>
          <i class="up" />
          all up
        </span>
        <span>
          <i class="partly" />
          part of the time or of the backends
        </span>
        <span>
          <i class="down" />
          none up
        </span>
        <span>
          <i class="unknown" />
          unknown
        </span>
      </figcaption>
      <Numbers
        caption="Backends up by step of time"
        heads={["Up"]}
        steps={steps.filter((s) => s.sums?.usable !== undefined)}
        cells={(s) => [percent(s.sums?.usable, 1)]}
        all={steps}
      />
    </figure>
  );
}

/** Numbers are the numbers of a chart for screen readers. */
function Numbers({
  caption,
  heads,
  steps,
  cells,
  all,
}: {
  caption: string;
  heads: string[];
  steps: HistoryStep[];
  cells(s: HistoryStep): (string | number | undefined)[];
  all: HistoryStep[];
}) {
  return (
    <div class="hidden">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {heads.map((h) => (
              <th scope="col" key={h}>
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {steps.map((s, at) => (
            <tr key={at}>
              <th scope="row">{name(s, all)}</th>
              {cells(s).map((c, i) => (
                <td key={i}>{c ?? 0}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const short = (n: number) => (n >= 1e6 ? `${n / 1e6}M` : n >= 1e3 ? `${n / 1e3}k` : String(n));
