import { mode } from "../api/client";
import { Dialog } from "../parts/parts";
import { allTenants, can } from "../parts/roles";
import { useSession } from "../parts/session";
import { routes } from "../screens/routes";

const inbox: [string, string][] = [
  ["j / k", "Next or previous approval"],
  ["Enter", "Open the approval"],
  ["a", "Approve, after a question"],
  ["d", "Deny, after a question"],
];
const everywhere: [string, string][] = [
  ["?", "These keys"],
  ["t", "Light, dark or as the system"],
  ["Esc", "Close a dialog"],
];

export function Help({ onClose }: { onClose(): void }) {
  const { me } = useSession();
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div class="keys">
        <Keys title="Everywhere" keys={everywhere} />
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
            <dt>{key.split(" ").map((k) => (k === "/" ? " / " : <kbd>{k}</kbd>))}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
