import { useState } from "preact/hooks";
import { mode } from "../api/client";
import { Check } from "../parts/ask";
import { keysOff, switchKeys } from "../parts/keys";
import { Dialog } from "../parts/parts";
import { allTenants, can } from "../parts/roles";
import { useSession } from "../parts/session";
import { routes } from "../screens/routes";

const inbox: [string, string][] = [
  ["j / k", "Next or previous approval"],
  ["Enter", "Open the approval"],
  ["x", "Choose for one answer"],
  ["X", "Choose all since the last one"],
  ["a", "Approve, after a question"],
  ["d", "Deny, after a question"],
];
const everywhere: [string, string][] = [
  ["Ctrl K", "Find (⌘ K on a Mac)"],
  ["/", "Find"],
  ["?", "These keys"],
  ["t", "Light, dark or as the system"],
  ["Esc", "Close a dialog"],
];

export function Help({ onClose }: { onClose(): void }) {
  const { me } = useSession();
  const [on, setOn] = useState(!keysOff());
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div class="keys">
        <Keys title="Everywhere" keys={mode === "console" ? everywhere : everywhere.slice(2)} />
        {mode === "console" && (
          <Keys
            title="Go to"
            keys={routes
              .filter((r) => !r.allTenants || can(me, r.allTenants, allTenants))
              .map((r) => [`g ${r.key}`, r.title])}
          />
        )}
        <Keys title="Inbox" keys={inbox} />
      </div>
      <Check
        label="Single keys"
        about="Off, only keys with Ctrl or ⌘, Enter and Escape do something. This browser remembers it."
        checked={on}
        onInput={(to) => {
          switchKeys(to ? "on" : "off");
          setOn(to);
        }}
      />
    </Dialog>
  );
}

function Keys({ title, keys }: { title: string; keys: [string, string][] }) {
  return (
    <section>
      <h3>{title}</h3>
      <dl>
        {keys.map(([key, what]) => (
          <div>
            <dt>{key.split(" ").map((k) => (k === "/" && key !== "/" ? " / " : <kbd>{k}</kbd>))}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
