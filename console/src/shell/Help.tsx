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
  ["x", "Select or clear an approval"],
  ["X", "Select a range"],
  ["a", "Approve (asks first)"],
  ["d", "Deny (asks first)"],
];
const everywhere: [string, string][] = [
  ["Ctrl K", "Find (⌘ K on a Mac)"],
  ["/", "Find"],
  ["?", "Keyboard shortcuts"],
  ["t", "Theme: light, dark or the system's"],
  ["Esc", "Close a dialog"],
];

export function Help({ onClose }: { onClose(): void }) {
  const { me } = useSession();
  const [on, setOn] = useState(!keysOff());
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
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
        label="Single-key shortcuts"
        about="Off: only Enter, Escape and shortcuts with Ctrl or ⌘ work. This browser remembers the choice."
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
