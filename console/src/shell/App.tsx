// The frame of all screens: the signed-in person, the navigation, and errors.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, mode, Problem, setCSRF, signInPath } from "../api/client";
import type { Me } from "../api/types";
import { useKeys } from "../parts/keys";
import { Empty, Failure, Loading, Screen } from "../parts/parts";
import { can } from "../parts/roles";
import { queryOf, setParam, useAddress, useHash } from "../parts/route";
import { SessionContext } from "../parts/session";
import { inWords, Untrusted } from "../parts/Untrusted";
import { ApprovalsContext, useApprovalsFeed } from "../screens/inbox/feed";
import { Inbox } from "../screens/inbox/Inbox";
import { routes } from "../screens/routes";
import { Find } from "./Find";
import { Help } from "./Help";
import { BottomBar, SideBar, TopBar } from "./Nav";
import { useTheme } from "./theme";

export function App() {
  const [me, setMe] = useState<Me>();
  const [problem, setProblem] = useState<Problem>();
  const load = useCallback(() => {
    setProblem(undefined);
    get<Me>("/v1/me").then(
      (m) => {
        setCSRF(m.csrf_token ?? "");
        setMe({ ...m, roles: m.roles ?? [] });
      },
      (err: unknown) => setProblem(err instanceof Problem ? err : new Problem(0, "PAGE_FAILED", String(err))),
    );
  }, []);
  useEffect(load, []);
  if (me) return <Frame me={me} />;
  return (
    <main class="alone">
      {problem && problem.status !== 401 ? (
        <Failure problem={problem} retry={load} />
      ) : (
        <Loading what={problem ? "Going to the sign-in page" : "Loading"} />
      )}
      {problem?.status === 403 && (
        <p>
          <a class="button" href={signInPath()}>
            Sign in as another person
          </a>
        </p>
      )}
    </main>
  );
}

const stored = "capgate.tenant";

/** known is a tenant that was chosen before, if the person still sees it. */
const known = (me: Me, tenant: string | null) => (tenant && can(me, "viewer", tenant) ? tenant : "");

function Frame({ me }: { me: Me }) {
  const [tenant, choose] = useState(() => me.tenant || known(me, sessionStorage.getItem(stored)) || "-");
  const [said, say] = useState("");
  const [help, setHelp] = useState(false);
  const theme = useTheme();
  const setTenant = useCallback((t: string) => {
    sessionStorage.setItem(stored, t);
    choose(t);
  }, []);
  const session = useMemo(() => ({ me, tenant, setTenant, say }), [me, tenant]);
  useEffect(() => {
    if (!said) return;
    const timer = window.setTimeout(() => say(""), 6000);
    return () => window.clearTimeout(timer);
  }, [said]);
  const chords =
    mode === "inbox"
      ? {}
      : Object.fromEntries(
          routes.map((r) => [
            r.key,
            () => {
              location.hash = "#/" + r.path;
            },
          ]),
        );
  const [finding, setFinding] = useState(false);
  const find = mode === "console" ? () => setFinding(true) : undefined;
  useKeys({ "?": () => setHelp(true), t: theme.next, ...(find ? { "/": find } : {}) }, chords);
  useEffect(() => {
    const pressed = (e: KeyboardEvent) => {
      if (!find || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey || e.key.toLowerCase() !== "k") return;
      if (document.querySelector("dialog[open]")) return;
      e.preventDefault();
      find();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  useShared(me, tenant, setTenant, say);
  return (
    <SessionContext.Provider value={session}>
      <Approvals>
        {/* biome-ignore lint/a11y/useValidAnchor: it leads to a place of the page; the address's # has the route */}
        <a
          class="skip"
          href="#main"
          onClick={(e) => {
            e.preventDefault();
            document.getElementById("main")?.focus();
          }}
        >
          Skip to the content
        </a>
        {me.insecure && (
          <p class="insecure" role="note">
            The admin API requires no credential (<span class="mono">insecure</span>). Everyone who can reach this port
            can change everything.
          </p>
        )}
        <div class={"frame " + mode}>
          {mode === "console" && <SideBar theme={theme} onHelp={() => setHelp(true)} />}
          <div class="column">
            <TopBar theme={theme} onHelp={() => setHelp(true)} onFind={find} />
            <main id="main" tabIndex={-1}>
              <Routed />
            </main>
          </div>
          {mode === "console" && <BottomBar />}
        </div>
        <div class={"toast" + (said ? " shown" : "")} role="status" aria-live="polite">
          {said}
        </div>
        {help && <Help onClose={() => setHelp(false)} />}
        {finding && <Find onClose={() => setFinding(false)} />}
      </Approvals>
    </SessionContext.Provider>
  );
}

/** useShared keeps the chosen tenant in the address, so that a link shows others the same. */
function useShared(me: Me, tenant: string, setTenant: (tenant: string) => void, say: (text: string) => void) {
  const hash = useAddress();
  const before = useRef({ hash: "", tenant });
  useEffect(() => {
    const linked = queryOf(hash).get("tenant"),
      came = before.current.hash !== hash && before.current.tenant === tenant;
    before.current = { hash: location.hash, tenant };
    if (me.tenant) return;
    if (came && linked && linked !== tenant && can(me, "viewer", linked)) return setTenant(linked);
    if (came && linked && linked !== tenant)
      say(`You have no role for the tenant ${inWords(linked, 64)} of this link.`);
    setParam("tenant", tenant === "-" ? "" : tenant, false);
  }, [hash, tenant]);
}

/** The approvals are followed once for the whole page: a browser has few connections. */
function Approvals({ children }: { children: preact.ComponentChildren }) {
  return <ApprovalsContext.Provider value={useApprovalsFeed()}>{children}</ApprovalsContext.Provider>;
}

function Routed() {
  const parts = useHash();
  const first = useRef(true);
  const path = parts.join("/");
  useEffect(() => {
    if (!first.current) {
      window.scrollTo(0, 0);
      document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [parts[0]]);
  if (mode === "inbox") return <Inbox rest={parts} />;
  const route = routes.find((r) => r.path === (parts[0] ?? ""));
  if (!route) {
    return (
      <Screen title="No such page">
        <Empty>
          The console has no page <Untrusted text={path} mono />. <a href="#/">Home</a>
        </Empty>
      </Screen>
    );
  }
  return <route.screen key={route.path} rest={parts.slice(1)} />;
}
