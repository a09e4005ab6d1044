// Approvals that are alike, as one card.
import type { ComponentChildren } from "preact";
import type { Approval } from "../../api/types";
import { Icon } from "../../parts/Icon";
import { useSession } from "../../parts/session";
import { Ago } from "../../parts/Time";
import { Untrusted } from "../../parts/Untrusted";
import { Countdown } from "./ApprovalCard";
import { argumentsOf, compare } from "./alike";
import { Path } from "./Compared";
import { toolInWords } from "./words";

const mostNames = 6;

interface Props {
  of: Approval[];
  open: boolean;
  onOpen(): void;
  onAnswer(): void;
  choose?: ComponentChildren;
}

export function GroupCard({ of, open, onOpen, onAnswer, choose }: Props) {
  const { tenant } = useSession();
  const a = of[0]!;
  const differ = compare(of.map((each) => argumentsOf(each)).filter((n) => n !== undefined)).differ;
  const title = toolInWords(a.tool);
  const first = Math.min(...of.map((each) => Date.parse(each.expire_time ?? "") || Infinity));
  return (
    <article class="card approval alike" tabIndex={0} aria-label={`${title}, ${of.length} similar calls`}>
      <header class="approval-head">
        {choose}
        <div>
          <h2>
            {title} <span class="count">{of.length}</span>
          </h2>
          <p class="dim small">
            <Untrusted text={a.capability} mono most={80} /> · <Untrusted text={a.tool} mono most={80} />
          </p>
        </div>
        {Number.isFinite(first) && <Countdown until={first} />}
      </header>
      <p>
        {of.length} similar calls for <Untrusted text={a.user} none="no user" most={80} /> from{" "}
        <Untrusted text={a.agent} none="an unnamed agent" most={80} />
        {tenant === "-" && (
          <>
            , tenant <Untrusted text={a.tenant} mono most={64} />
          </>
        )}
        . The first came <Ago time={a.create_time} />.
      </p>
      <p class="about">
        {differ.length ? "They differ in " : "Their arguments are the same."}
        {differ.slice(0, mostNames).map((d, i) => (
          <>
            {i > 0 && ", "}
            <Path of={d.path} />
          </>
        ))}
        {differ.length > mostNames && ` and ${differ.length - mostNames} more`}
        {differ.length > 0 && "."}
      </p>
      <div class="answers">
        <button type="button" class="button primary" onClick={onAnswer}>
          <Icon name="check" />
          Answer {of.length} together
        </button>
        <button type="button" class="button" aria-expanded={open} onClick={onOpen}>
          {open ? "Hide each" : "Show each"}
        </button>
      </div>
    </article>
  );
}
