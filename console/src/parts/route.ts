// The address: which screen, and with which filters.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";

/** useAddress is the part of the address behind #. */
export function useAddress(): string {
  const [hash, set] = useState(() => location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

/** useHash is the route: the part of the address behind #, as parts. */
export function useHash(): string[] {
  const path = useAddress().replace(/^#\/?/, "").split("?")[0]!;
  return useMemo(() => path.split("/").filter(Boolean).map(decoded), [path]);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** queryOf returns the parameters of an address behind #. */
export const queryOf = (hash: string) => new URLSearchParams(hash.split("?").slice(1).join("?"));

/** withQuery returns a path behind # with parameters; empty ones are left out. */
export function withQuery(path: string, params: Iterable<[string, string]>): string {
  const query = new URLSearchParams([...params].filter(([, value]) => value)).toString();
  return path + (query && "?" + query);
}

/** besides returns another path behind # with the filters of this one. */
export const besides = (path: string) => withQuery(path, queryOf(location.hash));

/** setParam writes a parameter into the address. A new step leads back to the address before. */
export function setParam(name: string, value: string, step: boolean) {
  const query = queryOf(location.hash);
  if ((query.get(name) ?? "") === value) return;
  query.set(name, value);
  const to = withQuery(location.hash.split("?")[0] || "#/", query);
  history[step ? "pushState" : "replaceState"](history.state, "", to);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Changes of a filter within so many ms are one step of back. */
const typing = 2000;

/** useFilters keeps the filters of a screen in the address, so that back works and a link can be shared. */
export function useFilters<K extends string>(
  names: readonly K[],
): [Record<K, string>, (name: K, value: string) => void] {
  const hash = useAddress();
  const last = useRef({ name: "", at: 0 });
  const values = useMemo(() => {
    const query = queryOf(hash);
    return Object.fromEntries(names.map((n) => [n, query.get(n) ?? ""])) as Record<K, string>;
  }, [hash, names.join()]);
  const set = useCallback((name: K, value: string) => {
    const { name: before, at } = last.current;
    last.current = { name, at: Date.now() };
    setParam(name, value, before !== name || Date.now() - at > typing);
  }, []);
  return [values, set];
}
