// What a person's roles permit, by tenant. The gateway decides; this is for the eyes.
import type { Me } from "../api/types";
import { useSession } from "./session";
import { inWords, Untrusted } from "./Untrusted";

export type Role = "viewer" | "operator" | "approver" | "admin";

/** In place of a tenant: what needs a role for all of them. */
export const allTenants = "";

/** rolesFor are the roles for a tenant; undefined: those for any. */
function rolesFor(me: Me, tenant: string | undefined): string[] {
  if (tenant === undefined) return me.roles;
  if (me.tenant) return tenant === me.tenant ? me.roles : [];
  if (!me.tenants?.length) return me.roles;
  return [...((me.all_roles ?? []) as string[]), ...(me.tenants.find((t) => t.tenant === tenant)?.roles ?? [])];
}

/** can reports whether the roles for a tenant permit what a role permits; undefined: those for any tenant. */
export function can(me: Me, role: Role, tenant?: string): boolean {
  const roles = rolesFor(me, tenant);
  if (me.insecure || roles.includes("admin")) return true;
  return role === "viewer" ? roles.length > 0 : roles.includes(role);
}

export interface May {
  may: boolean;
  why: string | undefined;
}

/** useJudge returns a function that reports whether the person may do something for a tenant, and why not. */
export function useJudge(role: Role): (tenant?: string) => May {
  const { me } = useSession();
  return (tenant) => {
    if (can(me, role, tenant)) return { may: true, why: undefined };
    return { may: false, why: `Needs the role ${role}${can(me, role) ? forTenant(tenant) : ""}` };
  };
}

const forTenant = (tenant: string | undefined) =>
  tenant === undefined ? "" : tenant === allTenants ? " for all tenants" : ` for the tenant ${inWords(tenant, 64)}`;

/** useMay is useJudge for one tenant. */
export const useMay = (role: Role, tenant?: string): May => useJudge(role)(tenant);

/** Needs says why the changes of a screen are disabled. */
export function Needs({ role, tenant, what = "Changes" }: { role: Role; tenant?: string | undefined; what?: string }) {
  const { may } = useMay(role, tenant);
  if (may) return null;
  return (
    <p class="note">
      {what} need the role {role}
      {forTenant(tenant)}. You have <RolesOfPerson />.
    </p>
  );
}

/** A line has no room for more tenants than so many. */
const mostTenants = 5;

/** RolesOfPerson is what the person's roles are, in words. */
export function RolesOfPerson() {
  const { me } = useSession();
  const of = me.tenants ?? [],
    all = (me.all_roles ?? []) as string[];
  if (me.tenant)
    return (
      <>
        {me.roles.join(", ") || "no roles"} of <Untrusted text={me.tenant} mono most={40} />
      </>
    );
  if (of.length === 0) return <>{me.roles.join(", ") || "no roles"}</>;
  return (
    <>
      {all.length > 0 && <>{all.join(", ")} of all tenants</>}
      {of.slice(0, mostTenants).map((t, i) => (
        <>
          {(i > 0 || all.length > 0) && "; "}
          {t.roles.join(", ")} of <Untrusted text={t.tenant} mono most={40} />
        </>
      ))}
      {of.length > mostTenants && <> and of {of.length - mostTenants} more</>}
    </>
  );
}
