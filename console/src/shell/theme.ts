// Light or dark: as the system, unless chosen.
import { useCallback, useEffect, useState } from "preact/hooks";

const themes = ["auto", "light", "dark"] as const;
export type ThemeName = (typeof themes)[number];
export interface Theme {
  name: ThemeName;
  next(): void;
}

const stored = "capgate.theme";

export function useTheme(): Theme {
  const [name, set] = useState<ThemeName>(() => themes.find((t) => t === localStorage.getItem(stored)) ?? "auto");
  useEffect(() => {
    document.documentElement.dataset["theme"] = name;
    localStorage.setItem(stored, name);
  }, [name]);
  return { name, next: useCallback(() => set((n) => themes[(themes.indexOf(n) + 1) % themes.length]!), []) };
}
