// Loading a resource of the API.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Params, Problem } from "../api/client";

export interface Loaded<T> {
  value: T | undefined;
  error: Problem | undefined;
  reload(): void;
}

/** asProblem returns what went wrong as a Problem. */
export const asProblem = (err: unknown) =>
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
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [key, turn, every]);
  return { value: state.value, error: state.error, reload: useCallback(() => next((n) => n + 1), []) };
}
