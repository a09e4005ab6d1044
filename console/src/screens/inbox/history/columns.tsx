// The columns of the history of approvals.
import { now } from "../../../api/client";
import type { PastApproval } from "../../../api/types";
import { Badge, type Column, own, type Tone } from "../../../parts/parts";
import { secondsOf, timeOf } from "../../../parts/sorted";
import { Ago } from "../../../parts/Time";
import { inWords, Untrusted } from "../../../parts/Untrusted";
import { addressOf } from "../address";
import { rememberedAs, toolInWords } from "../words";
import { took } from "./numbers";

const outcomes: Record<string, [Tone, string]> = {
  approved: ["good", "Approved"],
  denied: ["bad", "Denied"],
  expired: ["wait", "Expired"],
  withdrawn: ["plain", "Withdrawn"],
};

/** Approvals are deleted an hour after their end. */
const kept = 3_600_000;

export const columns: Column<PastApproval>[] = [
  {
    title: "Call",
    by: (a) => `${a.capability} ${a.tool}`,
    kind: "wide",
    cell: (a) => (
      <>
        {now() - Date.parse(a.end_time ?? "") < kept ? (
          <a href={addressOf(a)}>{toolInWords(a.tool ?? "")}</a>
        ) : (
          toolInWords(a.tool ?? "")
        )}
        <div class="dim small">
          <Untrusted text={a.capability} mono most={60} />
        </div>
      </>
    ),
  },
  {
    title: "Outcome",
    by: (a) => a.outcome,
    cell: (a) => {
      const [tone, text] = own(outcomes, a.outcome) ?? ["plain", inWords(a.outcome ?? "", 30)];
      return <Badge tone={tone}>{text}</Badge>;
    },
  },
  {
    title: "By",
    by: (a) => a.answered_by,
    kind: "some",
    cell: (a) => (
      <>
        <Untrusted text={a.answered_by} none="–" most={60} />
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
    by: (a) => a.agent || a.user,
    kind: "some",
    cell: (a) => (
      <>
        <Untrusted text={a.agent} none="–" most={60} />
        {a.user && (
          <div class="dim small">
            for <Untrusted text={a.user} most={60} />
          </div>
        )}
      </>
    ),
  },
  { title: "Took", kind: "tight", by: (a) => secondsOf(a.answer_duration), cell: (a) => took(a.answer_duration) },
  { title: "Ended", kind: "tight", by: (a) => timeOf(a.end_time), cell: (a) => <Ago time={a.end_time} /> },
];
