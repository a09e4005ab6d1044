// The approvals that wait: searched, ordered, and alike ones in groups.
import { useContext, useMemo, useRef, useState } from "preact/hooks";
import { now } from "../../api/client";
import type { Approval } from "../../api/types";
import { Export } from "../../parts/Export";
import { useKeys } from "../../parts/keys";
import { useClock } from "../../parts/now";
import { Empty, Failure, Loading, Search } from "../../parts/parts";
import { useQuery } from "../../parts/query";
import { useSession } from "../../parts/session";
import { type Rows, VirtualList } from "../../parts/VirtualList";
import { AnswerDialog } from "./Answer";
import { AnswerMany } from "./AnswerMany";
import { ApprovalCard } from "./ApprovalCard";
import { addressOf } from "./address";
import { type Row, rowsOf } from "./alike";
import { Choose, Chosen } from "./Choose";
import { useChoice } from "./choice";
import { choiceLabel } from "./chosen";
import { ApprovalsContext, keyOf, stateOf } from "./feed";
import { GroupCard } from "./GroupCard";
import { type LiveList, standardOrder, useLiveList } from "./live";
import { canNotify, notifies, setNotifies } from "./notify";

const orders: [string, string][] = [
  [standardOrder, "The oldest first"],
  ["newest", "The newest first"],
  ["expires", "What expires first"],
];

/** waits are the parameters of the list of waiting approvals. */
const waits = { state: "pending", page_size: 100 };

type Asked = { key: string; what: "approve" | "deny" };

export function Waiting() {
  const { hub, state, ...all } = useContext(ApprovalsContext);
  const { tenant } = useSession();
  const [query, setQuery] = useQuery();
  const text = (query["q"] ?? "").slice(0, 200),
    order = orders.find(([o]) => o === query["order"])?.[0] ?? standardOrder;
  const change = (q: string, o: string) => setQuery({ q, order: o === standardOrder ? "" : o });
  const filtered = text !== "" || order !== standardOrder;
  const found = useLiveList(filtered ? { tenant, text, order } : undefined, hub);
  const list = filtered ? found : all;
  return (
    <>
      <div class="row waiting-filters">
        <Search label="Search by tool, user, agent or id" value={text} onInput={(q) => change(q, order)} />
        <label class="row">
          <span class="hidden">Order</span>
          <select class="input" aria-label="Order" value={order} onChange={(e) => change(text, e.currentTarget.value)}>
            {orders.map(([o, name]) => (
              <option key={o} value={o}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Export
          of={{ path: "/v1/approvals", field: "approvals", params: { tenant, text, order, ...waits } }}
          name="waiting"
        />
        <Notify />
      </div>
      <Failure problem={list.error} retry={list.reload} />
      {state === "stale" && (
        <p class="note wait stale" role="status">
          The connection is lost. What you see may be old; the page reconnects by itself.
        </p>
      )}
      <List list={list} text={text} />
    </>
  );
}

/** Notify turns notifications of the browser on and off. */
function Notify() {
  const [on, setOn] = useState(notifies);
  if (!canNotify() || (Notification.permission === "denied" && !on)) return null;
  return (
    <button type="button" class="button" aria-pressed={on} onClick={() => void setNotifies(!on).then(setOn)}>
      {on ? "Notifications are on" : "Notify me"}
    </button>
  );
}

function List({ list, text }: { list: LiveList; text: string }) {
  const { items, others, loading, error, more } = list;
  const [asked, ask] = useState<Asked>();
  const [many, setMany] = useState<Approval[]>();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const rows = useRef<Rows>(null);
  // An approval that expires leaves its group at that time.
  const waiting = useClock((time) => items.filter((a) => stateOf(a, time) === "pending").length);
  const shown = useMemo(
    () => rowsOf(items, (a) => stateOf(a, now()) === "pending" && a.level !== "elsewhere", open),
    [items, waiting, open],
  );
  const toggle = (key: string) => {
    const to = new Set(open);
    if (!to.delete(key)) to.add(key);
    setOpen(to);
  };
  const choice = useChoice(items, shown);
  const choose = (r: Row) =>
    choice.can(r) ? (
      <Choose label={choiceLabel(r)} chosen={choice.has(r)} onChoose={(range) => choice.toggle(r, range)} />
    ) : undefined;
  const selected = (): Row | undefined => shown[rows.current?.current() ?? -1];
  const answer = (what: "approve" | "deny") => {
    const r = selected();
    if (!r) return;
    if ("group" in r) {
      setMany(r.group);
      return;
    }
    const button = document.activeElement
      ?.closest("[data-row]")
      ?.querySelector<HTMLButtonElement>(what === "approve" ? "button.approve" : "button.deny");
    if (button && !button.disabled) ask({ key: r.key, what });
  };
  const toggleSelected = (range: boolean) => {
    const r = selected();
    if (r && choice.can(r)) choice.toggle(r, range);
  };
  useKeys({
    a: () => answer("approve"),
    d: () => answer("deny"),
    x: () => toggleSelected(false),
    X: () => toggleSelected(true),
    Enter: () => {
      const r = selected();
      if (r && "group" in r) toggle(r.key);
      else if (r) location.hash = addressOf(r.of);
    },
  });
  const last = useRef<Approval>(undefined);
  const of = asked && items.find((a) => keyOf(a) === asked.key);
  if (of || !asked) last.current = of;
  const empty = items.length === 0;
  return (
    <>
      {empty && loading && !error && <Loading />}
      {empty && !loading && !error && (
        <Empty>
          {text ? (
            <>
              <b>No waiting approval matches</b>Tools, users, agents, ids and descriptions are searched.
            </>
          ) : (
            <>
              <b>Nothing is waiting for you</b>A call that needs approval appears here immediately.
            </>
          )}
        </Empty>
      )}
      <VirtualList<Row>
        label="Approvals"
        items={shown}
        keyOf={(r) => r.key}
        estimate={420}
        rows={rows}
        total={others === 0 ? undefined : -1}
        onEnd={more}
        row={(r) =>
          "group" in r ? (
            <GroupCard
              of={r.group}
              open={open.has(r.key)}
              onOpen={() => toggle(r.key)}
              onAnswer={() => setMany(r.group)}
              choose={choose(r)}
            />
          ) : (
            <ApprovalCard of={r.of} ask={(what) => ask({ key: r.key, what })} choose={choose(r)} />
          )
        }
      />
      <p class={others === 0 ? "hidden" : "dim more"} role="status">
        {waiting.toLocaleString("en")} waiting
        {others === undefined && " are shown, and there are more. They are loaded as you scroll."}
        {others !== undefined &&
          others > 0 &&
          ` are shown, and ${others.toLocaleString("en")} more wait. They are loaded as you scroll.`}
      </p>
      <Chosen count={choice.of.length} onAnswer={() => setMany(choice.of)} onClear={choice.clear} />
      {asked && last.current && (
        <AnswerDialog of={last.current} deny={asked.what === "deny"} onClose={() => ask(undefined)} />
      )}
      {many && <AnswerMany of={many} onClose={() => setMany(undefined)} />}
    </>
  );
}
