// In place of what concerns one tenant, while none is chosen.
import { Empty } from "./parts";
import { useSession } from "./session";
import { inWords } from "./Untrusted";

/** There is no room for more buttons than so many. */
const most = 12;

/** ChooseTenant lets a person with several tenants choose one. Nothing is shown of a tenant that was not chosen. */
export function ChooseTenant() {
  const { me, setTenant } = useSession();
  const of = (me.tenants ?? []).slice(0, most);
  return (
    <Empty>
      <b>Choose a tenant</b>This is of one tenant. Choose it {of.length > 0 && "here or "}at the top of the page.
      {of.length > 0 && (
        <div class="choose">
          {of.map((t) => (
            <button key={t.tenant} type="button" class="button small" onClick={() => setTenant(t.tenant)}>
              {inWords(t.tenant, 63)}
            </button>
          ))}
        </div>
      )}
    </Empty>
  );
}
