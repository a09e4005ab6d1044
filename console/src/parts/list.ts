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
}

interface PageOf {
  next_page_token?: string;
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
    shown = useRef("");
  const key = JSON.stringify([path, field, params]);
  const read = async (count: number, signal: AbortSignal) => {
    setLoading(true);
    const changes: ((items: T[]) => T[])[] = [];
    reading.current = changes;
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
    const mine = new AbortController();
    stop.current = mine;
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
    return () => {
      mine.abort();
      window.clearTimeout(timer);
    };
  }, [key, turn, every]);
  const reload = useCallback(() => next((n) => n + 1), []);
  const more = page?.next_page_token
    ? () => {
        pages.current++;
        reload();
      }
    : undefined;
  const change = useCallback((by: (items: T[]) => T[]) => {
    reading.current?.push(by);
    setItems(by);
  }, []);
  return { items, page, error, loading, more, reload, change };
}
