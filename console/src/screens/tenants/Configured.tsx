// The configured limits of a tenant: what they are, their change, and its undoing.
import { useState } from "preact/hooks";
import type { Problem } from "../../api/client";
import type { Tenant } from "../../api/types";
import { Ask, Check, Text } from "../../parts/ask";
import { asProblem } from "../../parts/load";
import { Card, Facts, Failure } from "../../parts/parts";
import { useSession } from "../../parts/session";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { type Draft, draftOf, fields, type Limits, limitsOf, wrong } from "./limits";

/** Save replaces the limits of the tenant; undefined: those of the configuration for all tenants. */
type Save = (limits: Limits | undefined) => Promise<unknown>;

export function Configured({ tenant: t, why, save }: { tenant: Tenant; why: string | undefined; save: Save }) {
  const { say } = useSession();
  const [asked, ask] = useState(false);
  const [before, setBefore] = useState<{ limits: Limits | undefined }>();
  const [problem, setProblem] = useState<Problem>();
  const undo = async () => {
    setProblem(undefined);
    try {
      await save(before?.limits);
      setBefore(undefined);
      say("The limits are restored.");
    } catch (err) {
      setProblem(asProblem(err));
    }
  };
  const l = t.limits;
  const rows = fields.filter(([field]) => Number(l?.[field] ?? 0) > 0);
  return (
    <Card
      title="Configured limits"
      tools={
        <span class="row actions">
          {before && (
            <button type="button" class="button small" disabled={Boolean(why)} title={why} onClick={() => void undo()}>
              Undo the change
            </button>
          )}
          <button
            type="button"
            class="button small"
            disabled={Boolean(why)}
            title={why}
            aria-label="Change the limits"
            onClick={() => ask(true)}
          >
            Change
          </button>
        </span>
      }
    >
      <Failure problem={problem} />
      {!l ? (
        <p class="dim">Those of the configuration for all tenants.</p>
      ) : rows.length === 0 && !(l.each ?? []).length ? (
        <p class="dim">None: its calls are not limited.</p>
      ) : (
        <Facts of={rows.map(([field, label]) => [label, Number(l[field]).toLocaleString("en")])} />
      )}
      {(l?.each ?? []).length > 0 && (
        <ul class="limits-each">
          {(l?.each ?? []).map((e, i) => (
            <li key={i}>
              {e.per ? `For each ${inWords(e.per, 30)}` : "Together"}
              {(e.capability || e.tool) && (
                <>
                  {" "}
                  of <Untrusted text={[e.capability, e.tool].filter(Boolean).join(" / ")} mono most={100} />
                </>
              )}
              :{" "}
              {fields
                .filter(([field]) => Number((e as Record<string, unknown>)[field] ?? 0) > 0)
                .map(([field, label]) => `${label} ${(e as Record<string, unknown>)[field]}`)
                .join(", ")}
            </li>
          ))}
        </ul>
      )}
      {l?.shadow && <p class="note wait">Shadow: calls beyond the limits are counted, not refused.</p>}
      {asked && (
        <ChangeLimits
          tenant={t}
          onClose={() => ask(false)}
          save={async (limits) => {
            await save(limits);
            setBefore({ limits: l });
            say("The limits are changed.");
          }}
        />
      )}
    </Card>
  );
}

function ChangeLimits({ tenant: t, save, onClose }: { tenant: Tenant; save: Save; onClose(): void }) {
  const [standard, setStandard] = useState(!t.limits);
  const [draft, setDraft] = useState<Draft>(draftOf(t.limits));
  const [shadow, setShadow] = useState(Boolean(t.limits?.shadow));
  const mistake = standard ? undefined : wrong(draft);
  return (
    <Ask
      title={`Limits of ${inWords(t.id, 70)}`}
      verb="Change"
      disabled={Boolean(mistake)}
      run={() => save(standard ? undefined : limitsOf(draft, shadow, t.limits))}
      onClose={onClose}
    >
      <Check
        label="As the configuration says for all tenants"
        checked={standard}
        onInput={setStandard}
        about="Otherwise the tenant has the limits below."
      />
      <div class="two">
        {fields.map(([field, label, hint]) => (
          <Text
            key={field}
            label={label}
            value={draft[field]}
            disabled={standard}
            most={15}
            placeholder="no limit"
            hint={hint}
            onInput={(text) => setDraft((d) => ({ ...d, [field]: text }))}
          />
        ))}
      </div>
      <Check
        label="Shadow"
        about="Calls beyond a limit are counted, and not refused."
        checked={shadow}
        onInput={setShadow}
      />
      {(t.limits?.each ?? []).length > 0 && !standard && (
        <p class="dim small">Its limits for some of the calls stay as they are.</p>
      )}
      {mistake && <p class="note wait">{mistake}</p>}
    </Ask>
  );
}
