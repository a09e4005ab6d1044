import { useEffect, useMemo, useState } from "preact/hooks";

const queryOf = (hash: string) => new URLSearchParams(hash.split("?").slice(1).join("?"));

/**
 * useQuery is what the address has behind ?, as names and values. Setting some of them replaces the address, so that back
 * leads away. Empty ones are left out.
 */
export function useQuery(): [Record<string, string>, (some: Record<string, string>) => void] {
  const [hash, set] = useState(() => location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  const query = useMemo(() => Object.fromEntries(queryOf(hash)), [hash]);
  return [
    query,
    (some) => {
      const all = { ...Object.fromEntries(queryOf(location.hash)), ...some };
      const text = new URLSearchParams(Object.entries(all).filter(([, value]) => value)).toString();
      history.replaceState(history.state, "", (location.hash.split("?")[0] || "#/") + (text ? "?" + text : ""));
      window.dispatchEvent(new HashChangeEvent("hashchange"));
    },
  ];
}
