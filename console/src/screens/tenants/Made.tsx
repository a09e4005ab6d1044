// A new key, shown once, with a call that works and the results of the calls that used it.
import { useRef, useState } from "preact/hooks";
import type { CallsPage, NewKey, RecentCall } from "../../api/types";
import { Copy, Text } from "../../parts/ask";
import { usePublicPort } from "../../parts/connect/port";
import { useGet } from "../../parts/load";
import { Dialog } from "../../parts/parts";
import { Ago } from "../../parts/Time";
import { inWords, Untrusted } from "../../parts/Untrusted";
import { Result } from "../calls/Result";

const stored = "capgate.public";

/** quoted is a text of a POSIX shell. */
const quoted = (text: string) => "'" + text.replaceAll("'", `'\\''`) + "'";

/** Made shows a new key, for the only time. Only its own button closes it. */
export function Made({ tenant, of, onClose }: { tenant: string; of: NewKey; onClose(): void }) {
  const [typed, setTyped] = useState(() => localStorage.getItem(stored) || undefined); // also for a key before
  const port = usePublicPort();
  const address = typed ?? port?.url ?? "";
  const [warned, warn] = useState(false);
  const kept = useRef<HTMLButtonElement>(null);
  const key = of.credential ?? "",
    id = of.key?.id ?? "";
  const curl = `curl ${quoted(address.replace(/\/+$/, "") + "/v1/capabilities")} \\\n  -H ${quoted("Authorization: Bearer " + key)}`;
  return (
    <Dialog
      title="Copy this key now"
      onClose={onClose}
      keep={() => {
        warn(true);
        kept.current?.focus();
      }}
    >
      <p>
        The gateway keeps only its checksum. This is the only time that the key <Untrusted text={id} mono /> is shown.
      </p>
      <code class="secret">{inWords(key, 500)}</code>
      <div class="actions">
        <Copy text={key} label="Copy the key" />
      </div>
      <Text
        label="Address for callers"
        value={address}
        onInput={(text) => {
          setTyped(text);
          localStorage.setItem(stored, text);
        }}
        hint="The public port. This browser remembers another one that you type."
      />
      {address && (
        <>
          <pre class="code">{curl}</pre>
          <div class="actions">
            <Copy text={curl} label="Copy the curl" />
          </div>
        </>
      )}
      <Calls tenant={tenant} id={id} />
      {warned && (
        <p class="note wait" role="alert">
          The key cannot be shown again. Copy it, then choose “I have copied it”.
        </p>
      )}
      <div class="actions">
        <button ref={kept} type="button" class="button primary" onClick={onClose}>
          I have copied it
        </button>
      </div>
    </Dialog>
  );
}

/** Calls are the last calls with the key, so that a refusal and its reason show up beside it. */
function Calls({ tenant, id }: { tenant: string; id: string }) {
  const { value } = useGet<CallsPage>(id ? "/v1/calls" : undefined, { tenant, query: id, page_size: 5 }, 3000);
  const calls = ((value?.calls ?? []) as RecentCall[]).filter((c) => c.key === id);
  return (
    <section aria-label="Calls with this key">
      {calls.length === 0 ? (
        <p class="dim small">Calls of tools with this key appear here, with the reason if one is refused.</p>
      ) : (
        <ul class="plain">
          {calls.map((c) => (
            <li key={c.id}>
              <Result of={c} /> <Untrusted text={c.reason} mono none="" most={60} />{" "}
              <Untrusted text={c.tool} mono none={inWords(c.method ?? "", 40)} most={60} /> <Ago time={c.time} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
