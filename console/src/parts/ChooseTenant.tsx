// A page of one tenant, while none is chosen.
import { Empty } from "./parts";
import { useSession } from "./session";
import { inWords } from "./Untrusted";

/** The most buttons that are shown. */
const most = 12;

/** ChooseTenant stands in place of a page that shows one tenant, and offers the tenants of the person. */
export function ChooseTenant() {
  const { me, setTenant } = useSession();
  const all = me.tenants ?? [];
  const of = all.slice(0, most);
  const others = all.length - of.length;
  return (
    <Empty>
      <b>Choose a tenant</b>This page shows one tenant. Choose it {of.length > 0 && "here or "}at the top of the page.
      {of.length > 0 && (
        <div class="tenant-choice">
          {of.map((t) => (
            <button key={t.tenant} type="button" class="button small" onClick={() => setTenant(t.tenant)}>
              {inWords(t.tenant, 63)}
            </button>
          ))}
        </div>
      )}
      {others > 0 && <p class="small">{others.toLocaleString("en")} more can be chosen at the top of the page.</p>}
    </Empty>
  );
}
