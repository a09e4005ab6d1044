// Loading a list of the API, page by page.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Params, type Problem } from "../api/client";
import { asProblem } from "./load";

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
  /** What was requested, for Export. */
  of: Request;
}

/** Request is a list of the API: its path, its name in a page, and its parameters. */
export interface Request {
  path: string;
  field: string;
  params: Params;
}

interface PageOf {
  next_page_token?: string;
}

/** pageOf requests a page of a list. */
async function pageOf<T, P extends PageOf>(of: Request, token: string, signal?: AbortSignal): Promise<[T[], P]> {
  const page = await get<P>(of.path, { ...of.params, page_token: token }, signal);
  return [(page as unknown as Record<string, T[] | undefined>)[of.field] ?? [], page];
}

/** allOf requests the pages of a list until it has so many items. more: there are others. */
export async function allOf<T>(
  of: Request,
  most: number,
  signal?: AbortSignal,
): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = [];
  for (let token = ""; ; ) {
    const [page, { next_page_token: next }] = await pageOf<T, PageOf>(of, token, signal);
    items.push(...page);
    if (!next || items.length >= most)
      return { items: items.slice(0, most), more: Boolean(next) || items.length > most };
    token = next;
  }
}

/** useList requests a list page by page. The field is the list's name in a page. */
export function useList<T, P extends PageOf = PageOf>(
  path: string,
  field: string,
  params: Params = {},
  every = 0,
): Listed<T, P> {
  const [items, setItems] = useState<T[]>([]);
  const [page, setPage] = useState<P>();
  const [error, setError] = useState<Problem>();
  const [loading, setLoading] = useState(true);
  const [turn, next] = useState(0);
  // What changes while a page is read holds for that page, too: the gateway may have written it before.
  const reading = useRef<((items: T[]) => T[])[] | undefined>(undefined);
  const pages = useRef(1),
    stop = useRef(new AbortController()),
    queue = useRef(Promise.resolve()),
    adding = useRef(false),
    shown = useRef("");
  const key = JSON.stringify([path, field, params]);
  const of: Request = { path, field, params };
  /** read reads pages, and puts them behind the items before. One read follows the other. */
  const read = (count: number, signal: AbortSignal, from?: { items: T[]; token: string }) => {
    const run = async () => {
      if (signal.aborted) return;
      setLoading(true);
      const changes: ((items: T[]) => T[])[] = [];
      reading.current = changes;
      try {
        const all: T[] = [...(from?.items ?? [])];
        let last: P | undefined;
        for (let i = 0; i < count; i++) {
          const [items, page] = await pageOf<T, P>(of, last?.next_page_token ?? from?.token ?? "", signal);
          last = page;
          for (const item of items) all.push(item);
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
    queue.current = queue.current.then(run);
    return queue.current;
  };
  useEffect(() => {
    const mine = new AbortController();
    stop.current = mine;
    if (shown.current !== key) {
      pages.current = 1;
      setItems([]);
      setPage(undefined);
      setLoading(true);
    }
    shown.current = key;
    let timer: number | undefined;
    const run = async () => {
      await read(pages.current, mine.signal);
      if (every && !mine.signal.aborted) timer = window.setTimeout(run, every);
    };
    void run();
    return () => {
      mine.abort();
      window.clearTimeout(timer);
    };
  }, [key, turn, every]);
  const reload = useCallback(() => next((n) => n + 1), []);
  const token = page?.next_page_token;
  const more = token
    ? () => {
        if (adding.current) return;
        adding.current = true;
        pages.current++;
        void read(1, stop.current.signal, { items, token }).then(() => {
          adding.current = false;
        });
      }
    : undefined;
  const change = useCallback((by: (items: T[]) => T[]) => {
    reading.current?.push(by);
    setItems(by);
  }, []);
  return { items, page, error, loading, more, reload, change, of };
}
