// The links to other screens, and the signed-in person.
import { useContext, useState } from "preact/hooks";
import { mode, type Problem, send, signInPath } from "../api/client";
import type { TenantsPage } from "../api/types";
import { useFeeds } from "../parts/feeds";
import { Icon } from "../parts/Icon";
import { useGet } from "../parts/load";
import { Dialog, Live } from "../parts/parts";
import { allTenants, can, RolesOfPerson } from "../parts/roles";
import { useHash } from "../parts/route";
import { useSession } from "../parts/session";
import { inWords, Untrusted } from "../parts/Untrusted";
import { ApprovalsContext } from "../screens/inbox/feed";
import { type Route, routes } from "../screens/routes";
import type { Theme } from "./theme";

interface Bar {
  theme: Theme;
  onHelp(): void;
}

const here = (r: Route, parts: string[]) => (parts[0] ?? "") === r.path;

function useRoutes() {
  const { me } = useSession();
  return routes.filter((r) => !r.allTenants || can(me, r.allTenants, allTenants));
}

function Waiting() {
  const { count } = useContext(ApprovalsContext);
  return count ? (
    <span class="count" role="img" aria-label={`${count} waiting`}>
      {count}
    </span>
  ) : null;
}

function Item({ route, parts, onGo }: { route: Route; parts: string[]; onGo?: () => void }) {
  return (
    <a class="nav-item" href={"#/" + route.path} aria-current={here(route, parts) ? "page" : undefined} onClick={onGo}>
      <Icon name={route.icon} />
      <span>{route.title}</span>
      {route.path === "inbox" && <Waiting />}
    </a>
  );
}

const Brand = () => (
  <a class="brand" href="#/" aria-label="capgate, to the start">
    <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="brand-back" />
      <path d="M8 26V13a8 8 0 0 1 16 0v13M16 5v21M8 16h16" fill="none" stroke="#fff" stroke-width="2.5" />
    </svg>
    <span>capgate</span>
  </a>
);

export function SideBar({ theme, onHelp }: Bar) {
  const parts = useHash();
  return (
    <aside class="side" aria-label="Sidebar">
      <Brand />
      <nav aria-label="Screens">
        {useRoutes().map((r) => (
          <Item key={r.path} route={r} parts={parts} />
        ))}
      </nav>
      <div class="side-foot">
        <div class="row">
          <ThemeButton theme={theme} />
          <HelpButton onHelp={onHelp} />
        </div>
        <Person />
      </div>
    </aside>
  );
}

export function TopBar({ theme, onHelp, onFind }: Bar & { onFind?: (() => void) | undefined }) {
  const state = useFeeds();
  return (
    <header class="top">
      <Brand />
      <span class="grow" />
      {onFind && (
        <button type="button" class="button find-button" aria-haspopup="dialog" onClick={onFind}>
          <Icon name="find" />
          <span class="find-word">Find</span>
          <kbd class="wide-only">Ctrl K</kbd>
        </button>
      )}
      {mode === "console" ? <Tenants /> : <OwnTenants />}
      <Live state={state} />
      {mode === "inbox" && (
        <>
          <ThemeButton theme={theme} />
          <HelpButton onHelp={onHelp} />
        </>
      )}
      <Account theme={theme} />
    </header>
  );
}

/** The bar of phones: four screens, and a menu of the others. */
export function BottomBar() {
  const parts = useHash();
  const [open, setOpen] = useState(false);
  const all = useRoutes();
  const first = all.slice(0, all.length > 5 ? 4 : 5),
    others = all.slice(first.length);
  return (
    <nav class="bottom" aria-label="Screens">
      {first.map((r) => (
        <Item key={r.path} route={r} parts={parts} />
      ))}
      {others.length > 0 && (
        <button
          type="button"
          class="nav-item"
          aria-haspopup="dialog"
          data-here={others.some((r) => here(r, parts))}
          onClick={() => setOpen(true)}
        >
          <Icon name="more" />
          <span>More</span>
        </button>
      )}
      {open && (
        <Dialog title="Screens" onClose={() => setOpen(false)}>
          <div class="menu">
            {others.map((r) => (
              <Item key={r.path} route={r} parts={parts} onGo={() => setOpen(false)} />
            ))}
          </div>
        </Dialog>
      )}
    </nav>
  );
}

const themeNames = { auto: "as the system", light: "light", dark: "dark" };

function ThemeButton({ theme }: { theme: Theme }) {
  return (
    <button
      type="button"
      class="icon-button"
      onClick={theme.next}
      title={`Colors: ${themeNames[theme.name]}`}
      aria-label={`Colors: ${themeNames[theme.name]}. Change`}
    >
      <Icon name={theme.name === "auto" ? "auto" : theme.name === "dark" ? "moon" : "sun"} />
    </button>
  );
}

const HelpButton = ({ onHelp }: { onHelp(): void }) => (
  <button
    type="button"
    class="icon-button wide-only"
    onClick={onHelp}
    title="Keyboard shortcuts (?)"
    aria-label="Keyboard shortcuts"
  >
    <Icon name="keys" />
  </button>
);

/** The choice of one tenant or all, for people who answer for several. */
function OwnTenants() {
  const { me, tenant, setTenant } = useSession();
  const of = me.tenants ?? [];
  if (me.tenant || of.length === 0) return null;
  return <TenantChoice ids={of.map((t) => t.tenant)} tenant={tenant} onChoose={setTenant} />;
}

function TenantChoice({ ids, tenant, onChoose }: { ids: string[]; tenant: string; onChoose(tenant: string): void }) {
  const { me } = useSession();
  const all = tenant === "-" || ids.includes(tenant) ? ids : [tenant, ...ids];
  const some = Boolean(me.tenants?.length) && !me.all_roles?.length;
  return (
    <select class="input tenant" aria-label="Tenant" value={tenant} onChange={(e) => onChoose(e.currentTarget.value)}>
      <option value="-">{some ? "All your tenants" : "All tenants"}</option>
      {all.map((id) => (
        <option key={id} value={id}>
          {inWords(id, 60)}
        </option>
      ))}
    </select>
  );
}

/** The choice of one tenant or all, for operators of all tenants. */
function Tenants() {
  const { me, tenant, setTenant } = useSession();
  const { value } = useGet<TenantsPage>(me.tenant ? undefined : "/v1/tenants", { page_size: 100 });
  if (me.tenant)
    return (
      <span class="tenant">
        Tenant <Untrusted text={me.tenant} mono most={40} />
      </span>
    );
  const ids = (value?.tenants ?? []).map((t) => t.id ?? "").filter(Boolean);
  if (value?.next_page_token) {
    return (
      <input
        class="input tenant"
        list="tenants"
        aria-label="Tenant, empty for all"
        placeholder="All tenants"
        maxLength={256}
        value={tenant === "-" ? "" : tenant}
        onChange={(e) => setTenant(e.currentTarget.value.trim() || "-")}
      />
    );
  }
  return <TenantChoice ids={ids} tenant={tenant} onChoose={setTenant} />;
}

async function signOut(say: (text: string) => void) {
  try {
    await send("POST", "/signout");
    location.assign(signInPath().split("?")[0] + "?out=1");
  } catch (err) {
    say((err as Problem).detail);
  }
}

const signedIn = (via: string | undefined) => via !== undefined && via !== "insecure";

/** Person is who is signed in, with what they may do. */
function Person() {
  const { me, say } = useSession();
  return (
    <div class="person">
      <p class="who">
        <Icon name="person" />
        <Untrusted text={me.user || me.name} most={60} />
      </p>
      <p class="dim small">
        <RolesOfPerson />
      </p>
      {signedIn(me.via) && (
        <button type="button" class="button small" onClick={() => void signOut(say)}>
          Sign out
        </button>
      )}
    </div>
  );
}

function Account({ theme }: { theme: Theme }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        class={"icon-button" + (mode === "console" ? " narrow-only" : "")}
        aria-haspopup="dialog"
        aria-label="Account"
        onClick={() => setOpen(true)}
      >
        <Icon name="person" />
      </button>
      {open && (
        <Dialog title="Account" onClose={() => setOpen(false)}>
          <Person />
          <p class="row">
            <ThemeButton theme={theme} />
            <span>Colors: {themeNames[theme.name]}</span>
          </p>
        </Dialog>
      )}
    </>
  );
}
