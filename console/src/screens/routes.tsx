// The screens of the console, in the order of the navigation. A screen is one line here and a file beside this.
import type { ComponentType } from "preact";
import type { IconName } from "../parts/Icon";
import type { Role } from "../parts/roles";
import { Audit } from "./audit/Audit";
import { Calls } from "./calls/Calls";
import { Connect } from "./connect/Connect";
import { Fleets } from "./fleets/Fleets";
import { Home } from "./home/Home";
import { Inbox } from "./inbox/Inbox";
import { Policies } from "./policies/Policies";
import { Sessions } from "./sessions/Sessions";
import { Tenants } from "./tenants/Tenants";
import { Tools } from "./tools/Tools";
import { Toolsets } from "./toolsets/Toolsets";
import { Webhooks } from "./webhooks/Webhooks";
import "./screens.css";

export interface Route {
  /** The first part of the address behind #/; "": the start. */
  path: string;
  title: string;
  icon: IconName;
  /** Pressed after g. */
  key: string;
  /** It gets the further parts of the address. */
  screen: ComponentType<{ rest: string[] }>;
  /** The role for all tenants without which it cannot be opened: it shows what is of all tenants. */
  allTenants?: Role;
}

export const routes: Route[] = [
  { path: "", title: "Home", icon: "home", key: "h", screen: Home },
  { path: "inbox", title: "Inbox", icon: "inbox", key: "i", screen: Inbox },
  { path: "fleets", title: "Fleets", icon: "fleets", key: "f", screen: Fleets, allTenants: "viewer" },
  { path: "tools", title: "Tools", icon: "tools", key: "o", screen: Tools },
  { path: "toolsets", title: "Toolsets", icon: "toolsets", key: "t", screen: Toolsets },
  { path: "connect", title: "Connect", icon: "connect", key: "n", screen: Connect },
  { path: "policies", title: "Policies", icon: "policies", key: "p", screen: Policies },
  { path: "tenants", title: "Tenants", icon: "tenants", key: "e", screen: Tenants },
  { path: "calls", title: "Calls", icon: "calls", key: "c", screen: Calls },
  { path: "webhooks", title: "Webhooks", icon: "webhooks", key: "w", screen: Webhooks, allTenants: "viewer" },
  { path: "audit", title: "Audit", icon: "audit", key: "a", screen: Audit },
  { path: "sessions", title: "Sessions", icon: "sessions", key: "s", screen: Sessions, allTenants: "admin" },
];
