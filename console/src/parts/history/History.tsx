// The calls of a fleet, backend, tool or tenant over an hour, a day or a week.
import type { HistorySums, Past } from "../../api/types";
import { useGet } from "../load";
import { own } from "../own";
import { Card, Empty, Facts, Failure, Loading } from "../parts";
import { useFilters } from "../route";
import { Exact } from "../Time";
import { Untrusted } from "../Untrusted";
import { CallsChart, StateChart, TimesChart } from "./charts";
import { duration, percent } from "./steps";
import "./history.css";

const spans: [string, string][] = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
];

export function History({ path, params = {} }: { path: string; params?: Record<string, string> }) {
  const [{ span: chosen }, set] = useFilters(["span"]);
  const span = spans.some(([name]) => name === chosen) ? chosen : "1h";
  const { value, error, reload } = useGet<Past>(path, { ...params, span }, 30_000);
  const off = error?.reason === "HISTORY_OFF";
  return (
    <Card
      title="Over time"
      tools={
        <fieldset class="row spans">
          <legend class="hidden">Length of time</legend>
          {spans.map(([name, text]) => (
            <button
              type="button"
              key={name}
              class="button small"
              aria-pressed={span === name}
              onClick={() => set("span", name === "1h" ? "" : name)}
            >
              {text}
            </button>
          ))}
        </fieldset>
      }
    >
      {off ? (
        <Empty>
          <b>No history is kept</b>Set history.series in the configuration.
        </Empty>
      ) : (
        <Failure problem={error} retry={reload} />
      )}
      {!value && !error && <Loading />}
      {value && <Charts past={value} />}
      {!!value?.other_calls && (
        <p class="dim small">
          {value.other_calls.toLocaleString("en")} further calls of this time are counted together: more were called
          than history.series counts apart{params.tool !== undefined && ", or the fleet has no such tool"}.
        </p>
      )}
    </Card>
  );
}

function Charts({ past }: { past: Past }) {
  const steps = past.steps ?? [],
    sums = past.sums ?? {},
    marks = past.marks ?? [];
  return (
    <div class="stack past">
      <Sums of={sums} />
      <CallsChart steps={steps} marks={marks} />
      <TimesChart steps={steps} marks={marks} />
      {sums.usable !== undefined && <StateChart steps={steps} />}
      {(past.reasons ?? []).length > 0 && (
        <div>
          <h3>Refused, by reason</h3>
          <ul class="reasons">
            {(past.reasons ?? []).map((r, i) => (
              <li key={i}>
                <a href={"#/calls?reason=" + encodeURIComponent(r.reason ?? "")}>
                  <Untrusted text={r.reason} mono most={80} />
                </a>{" "}
                <span class="dim">{(r.count ?? 0).toLocaleString("en")}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
      {marks.length > 0 && (
        <details>
          <summary>
            {marks.length} {marks.length === 1 ? "start, reload or drain" : "starts, reloads and drains"}
          </summary>
          <ul class="marks">
            {marks.map((m, i) => (
              <li key={i}>
                <Exact time={m.time} /> {own(words, m.kind) ?? "event"} <Untrusted text={m.text} mono most={100} />{" "}
                <span class="dim">
                  at <Untrusted text={m.replica} mono most={60} />
                </span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

const words: Record<string, string> = {
  start: "replica started",
  reload: "configuration loaded",
  "backend.drained": "backend drained",
  "backend.undrained": "backend takes calls again",
};

function Sums({ of: s }: { of: HistorySums }) {
  const n = (v: number | undefined) => (v ?? 0).toLocaleString("en");
  return (
    <Facts
      of={[
        ["Calls", n(s.calls)],
        ["Failed", `${n(s.failed)} (${percent(s.failed, s.calls)})`],
        ["Tool errors", `${n(s.tool_errors)} (${percent(s.tool_errors, s.calls)})`],
        ["Refused", `${n(s.refused)} (${percent(s.refused, s.calls)})`],
        ["Asked", n(s.asked)],
        ["Latency p50", duration(s.p50_ms)],
        ["Latency p99", duration(s.p99_ms)],
        ...(s.usable === undefined ? [] : ([["Backends up", percent(s.usable, 1)]] as [string, string][])),
      ]}
    />
  );
}
