// The session of the page: who is signed in, and what the screens show.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me } from "../api/types";

export interface Session {
  me: Me;
  /** The tenant that screens show; "-": all. */
  tenant: string;
  setTenant(tenant: string): void;
  /** say tells people with a screen reader, and everybody for a moment at the edge of the page. */
  say(text: string): void;
}

export const SessionContext = createContext<Session>(null as unknown as Session);
export const useSession = () => useContext(SessionContext);
