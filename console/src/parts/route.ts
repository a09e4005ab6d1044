import { useEffect, useMemo, useState } from "preact/hooks";

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
