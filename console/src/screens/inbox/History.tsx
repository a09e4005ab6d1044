// What has been answered, or expired.
import { useContext, useEffect, useState } from "preact/hooks";
import { now } from "../../api/client";
import type { Approval } from "../../api/types";
import { useList } from "../../parts/list";
import { Badge, Card, Failure, Loading, More, Table } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { Untrusted } from "../../parts/Untrusted";
import { addressOf } from "./address";
import { ApprovalsContext, keyOf, stateOf } from "./feed";
import { byOf, rememberedAs, stateInWords, toolInWords } from "./words";

export function History() {
  const { tenant } = useSession();
  const { version } = useContext(ApprovalsContext);
  const [state, setState] = useState("");
  const { items, error, loading, more, reload } = useList<Approval>("/v1/approvals", "approvals", {
    tenant,
    state,
    page_size: 50,
  });
  useEffect(() => {
    if (version) reload();
  }, [version]);
  const shown = items.filter((a) => stateOf(a, now()) !== "pending");
  return (
    <div class="stack">
      <label class="row">
        Show{" "}
        <select class="input" value={state} onChange={(e) => setState(e.currentTarget.value)}>
          <option value="">all that ended</option>
          <option value="approved">approved</option>
          <option value="used">approved and used</option>
          <option value="denied">denied</option>
          <option value="expired">expired</option>
        </select>
      </label>
      <Failure problem={error} retry={reload} />
      {loading && items.length === 0 ? (
        <Loading />
      ) : (
        <Card>
          <Table<Approval>
            label="History of approvals"
            rows={shown}
            keyOf={keyOf}
            empty="None. Approvals are deleted an hour after their end."
            columns={[
              {
                title: "Call",
                kind: "wide",
                cell: (a) => (
                  <>
                    <a href={addressOf(a)}>{toolInWords(a.tool)}</a>
                    <div class="dim small">
                      <Untrusted text={a.capability} mono most={60} />
                    </div>
                  </>
                ),
              },
              {
                title: "Outcome",
                cell: (a) => {
                  const s = stateOf(a, now());
                  return <Badge tone={stateInWords(s)[0]}>{stateInWords(s)[1]}</Badge>;
                },
              },
              {
                title: "By",
                cell: (a) => (
                  <>
                    <Untrusted text={byOf(a)} most={60} />
                    {rememberedAs(a) && <div class="dim small">{rememberedAs(a)}</div>}
                    {a.comment && (
                      <div class="dim small">
                        <Untrusted text={a.comment} most={100} />
                      </div>
                    )}
                  </>
                ),
              },
              {
                title: "Agent",
                cell: (a) => (
                  <>
                    <Untrusted text={a.agent} most={60} />
                    {a.user && (
                      <div class="dim small">
                        for <Untrusted text={a.user} most={60} />
                      </div>
                    )}
                  </>
                ),
              },
              { title: "When", cell: (a) => <Ago time={a.answer_time ?? a.update_time ?? a.expire_time} /> },
            ]}
          />
          <More more={more} loading={loading} />
        </Card>
      )}
    </div>
  );
}
