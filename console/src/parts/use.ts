// Hooks that screens share.
import { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { createContext } from "preact";
import { get, now, Problem, type Params } from "../api/client";
import { follow, type FeedState, type ServerEvent } from "../api/events";
import type { Me } from "../api/types";
import { own } from "./own";

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

/** useNow is the gateway's time in ms, again every so many ms. */
export function useNow(every = 1000): number {
  const [time, set] = useState(now);
  useEffect(() => {
    const timer = window.setInterval(() => set(now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return time;
}

export interface Loaded<T> { value: T | undefined; error: Problem | undefined; reload(): void }

const asProblem = (err: unknown) =>
  err instanceof Problem ? err : new Problem(0, "PAGE_FAILED", err instanceof Error ? err.message : String(err));

/** useGet requests a path, again when it changes, when reload is called, and every so many ms; 0: not by itself. */
export function useGet<T>(path: string | undefined, params: Params = {}, every = 0): Loaded<T> {
  const [state, set] = useState<{ value?: T; error?: Problem }>({});
  const [turn, next] = useState(0);
  const key = JSON.stringify([path, params]);
  const shown = useRef("");
  useEffect(() => {
    if (path === undefined) return;
    const stop = new AbortController();
    let timer: number | undefined;
    const run = async () => {
      try {
        const value = await get<T>(path, params, stop.signal);
        if (!stop.signal.aborted) set({ value });
      } catch (err) {
        if (!stop.signal.aborted) set((old) => ({ ...old, error: asProblem(err) }));
      }
      if (every && !stop.signal.aborted) timer = window.setTimeout(run, every);
    };
    if (shown.current !== key) set({});
    shown.current = key;
    void run();
    return () => { stop.abort(); window.clearTimeout(timer); };
  }, [key, turn, every]);
  return { value: state.value, error: state.error, reload: useCallback(() => next((n) => n + 1), []) };
}

export interface Listed<T, P> {
  items: T[];
  /** The last page, for what lists say of themselves. */
  page: P | undefined;
  error: Problem | undefined;
  loading: boolean;
  /** more requests the next page; undefined on the last. */
  more: (() => void) | undefined;
  reload(): void;
  /** change replaces the items on the screen, as after an event. */
  change(by: (items: T[]) => T[]): void;
}

interface PageOf { next_page_token?: string }

/** useList requests a list page by page. The field is the list's name in a page. */
export function useList<T, P extends PageOf = PageOf>(path: string, field: string, params: Params = {},
  every = 0): Listed<T, P> {
  const [items, setItems] = useState<T[]>([]);
  const [page, setPage] = useState<P>();
  const [error, setError] = useState<Problem>();
  const [loading, setLoading] = useState(true);
  const [turn, next] = useState(0);
  // What changes while a page is read holds for that page, too: the gateway may have written it before.
  const reading = useRef<((items: T[]) => T[])[] | undefined>(undefined);
  const pages = useRef(1), stop = useRef(new AbortController()), shown = useRef("");
  const key = JSON.stringify([path, field, params]);
  const read = async (count: number, signal: AbortSignal) => {
    setLoading(true);
    const changes = (reading.current = [] as ((items: T[]) => T[])[]);
    try {
      const all: T[] = [];
      let last: P | undefined;
      for (let i = 0; i < count; i++) {
        last = await get<P>(path, { ...params, page_token: last?.next_page_token ?? "" }, signal);
        all.push(...((last as unknown as Record<string, T[] | undefined>)[field] ?? []));
        if (!last.next_page_token) break;
      }
      if (signal.aborted) return;
      setItems(changes.reduce((items, by) => by(items), all));
      setPage(last);
      setError(undefined);
    } catch (err) {
      if (!signal.aborted) setError(asProblem(err));
    }
    if (reading.current === changes) reading.current = undefined;
    if (!signal.aborted) setLoading(false);
  };
  useEffect(() => {
    const mine = (stop.current = new AbortController());
    if (shown.current !== key) {
      pages.current = 1;
      setItems([]);
      setPage(undefined);
    }
    shown.current = key;
    let timer: number | undefined;
    const run = async () => {
      await read(pages.current, mine.signal);
      if (every && !mine.signal.aborted) timer = window.setTimeout(run, every);
    };
    void run();
    return () => { mine.abort(); window.clearTimeout(timer); };
  }, [key, turn, every]);
  const reload = useCallback(() => next((n) => n + 1), []);
  const more = page?.next_page_token ? () => { pages.current++; reload(); } : undefined;
  const change = useCallback((by: (items: T[]) => T[]) => {
    reading.current?.push(by);
    setItems(by);
  }, []);
  return { items, page, error, loading, more, reload, change };
}

// The states of all feeds of the page, by the hook that follows them.
const feeds = new Map<object, FeedState>();
const watchers = new Set<() => void>();

function tellFeed(of: object, state: FeedState | undefined) {
  if (state) feeds.set(of, state);
  else feeds.delete(of);
  watchers.forEach((tell) => tell());
}

/** useFeeds is the state of all feeds of the page together: live if all are. */
export function useFeeds(): FeedState {
  const [state, set] = useState<FeedState>("connecting");
  useEffect(() => {
    const tell = () => {
      const all = [...feeds.values()];
      set(all.includes("stale") ? "stale" : all.includes("connecting") ? "connecting" : "live");
    };
    watchers.add(tell);
    tell();
    return () => { watchers.delete(tell); };
  }, []);
  return state;
}

/** useEvents follows a feed while the screen is there, and returns its state. */
export function useEvents(path: string, params: Params, onEvent: (e: ServerEvent) => void, onGap: () => void): FeedState {
  const [state, set] = useState<FeedState>("connecting");
  const told = useRef({ onEvent, onGap });
  told.current = { onEvent, onGap };
  useEffect(() => {
    const me = {};
    const stop = follow({
      path, params,
      onEvent: (e) => (e.event === "missed" ? told.current.onGap() : told.current.onEvent(e)),
      onState: (s) => {
        // A feed tells what happens from now on. What happened since the list was read is read again.
        if (s === "live") told.current.onGap();
        tellFeed(me, s);
        set(s);
      },
    });
    return () => { stop(); tellFeed(me, undefined); };
  }, [path, JSON.stringify(params)]);
  return state;
}

/** useHash is the route: the part of the address behind #, as parts. */
export function useHash(): string[] {
  const [hash, set] = useState(() => location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return useMemo(() => hash.replace(/^#\/?/, "").split("?")[0]!.split("/").filter(Boolean).map(decoded), [hash]);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// Until when a key is the second one after g.
let second = 0;

/**
 * useKeys handles keys that are pressed outside of fields and dialogs. With chords, g begins one; no other handler gets
 * its second key.
 */
export function useKeys(keys: Record<string, () => void>, chords?: Record<string, () => void>) {
  const current = useRef({ keys, chords });
  current.current = { keys, chords };
  useLayoutEffect(() => { // what is shown has its keys
    const pressed = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || at.closest("input, textarea, select") || document.querySelector("dialog[open]")) return;
      const now = current.current;
      if (Date.now() < second) {
        if (!now.chords) return;
        second = 0;
        own(now.chords, e.key)?.();
        return;
      }
      if (now.chords && e.key === "g") second = Date.now() + 1500;
      // Enter and Space belong to the button or link that has the focus.
      if ((e.key === "Enter" || e.key === " ") && at.closest("button, a, summary")) return;
      own(now.keys, e.key)?.();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}
