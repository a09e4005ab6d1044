// Calls by minute, as bars: succeeded, waiting for approval, refused, tool errors, failed. Screen readers get the same
// numbers as a table.
import type { Minute } from "../../api/types";

const wide = 720,
  above = 14,
  high = 150,
  bottom = 32,
  left = 64;
const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export function Chart({ minutes: read }: { minutes: Minute[] }) {
  const minutes = read.map((m) => ({
    time: m.time ?? "",
    calls: m.calls ?? 0,
    asked: m.asked ?? 0,
    refusals: m.refusals ?? 0,
    errors: m.errors ?? 0,
    tools: m.tool_errors ?? 0,
  }));
  const most = Math.max(1, ...minutes.map((m) => m.calls));
  const top = nice(most),
    step = (wide - left) / Math.max(1, minutes.length);
  const y = (n: number) => (high * n) / top;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${wide} ${above + high + bottom}`} aria-hidden="true" focusable="false">
        {[0, top / 2, top].map((n) => (
          <g key={n}>
            <line x1={left} x2={wide} y1={above + high - y(n)} y2={above + high - y(n)} class="grid" />
            <text x={left - 8} y={above + high - y(n) + 6} text-anchor="end">
              {short(n)}
            </text>
          </g>
        ))}
        {minutes.map((m, i) => {
          const failed = y(m.errors),
            refused = y(m.refusals),
            asked = y(m.asked),
            tools = y(m.tools),
            ok = y(Math.max(0, m.calls - m.errors - m.refusals - m.asked - m.tools));
          const x = left + i * step + step * 0.16,
            w = step * 0.68;
          return (
            <g key={m.time}>
              <rect x={x} width={w} y={above + high - ok} height={ok} class="ok" />
              <rect x={x} width={w} y={above + high - ok - asked} height={asked} class="waiting" />
              <rect x={x} width={w} y={above + high - ok - asked - refused} height={refused} class="refused" />
              <rect x={x} width={w} y={above + high - ok - asked - refused - tools} height={tools} class="tools" />
              <rect
                x={x}
                width={w}
                y={above + high - ok - asked - refused - tools - failed}
                height={failed}
                class="failed"
              />
              {i % 3 === 0 && (
                <text x={x + w / 2} y={above + high + 26} text-anchor="middle">
                  {hour.format(new Date(m.time))}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <figcaption class="legend small dim">
        <span>
          <i class="ok" />
          answered
        </span>
        <span>
          <i class="waiting" />
          asked
        </span>
        <span>
          <i class="refused" />
          refused
        </span>
        <span>
          <i class="tools" />
          tool error
        </span>
        <span>
          <i class="failed" />
          failed
        </span>
      </figcaption>
      <div class="hidden">
        <table>
          <caption>Calls by minute</caption>
          <thead>
            <tr>
              <th scope="col">Minute</th>
              <th scope="col">Calls</th>
              <th scope="col">Asked</th>
              <th scope="col">Refused</th>
              <th scope="col">Tool errors</th>
              <th scope="col">Failed</th>
            </tr>
          </thead>
          <tbody>
            {minutes.map((m) => (
              <tr key={m.time}>
                <th scope="row">{hour.format(new Date(m.time))}</th>
                <td>{m.calls}</td>
                <td>{m.asked}</td>
                <td>{m.refusals}</td>
                <td>{m.tools}</td>
                <td>{m.errors}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

function nice(n: number): number {
  const size = 10 ** Math.floor(Math.log10(n));
  return Math.max(2, [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((k) => k * size).find((k) => k >= n)!);
}

const short = (n: number) => (n >= 1e6 ? `${n / 1e6}M` : n >= 1e3 ? `${n / 1e3}k` : String(n));
