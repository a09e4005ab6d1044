import { useLayoutEffect, useRef } from "preact/hooks";
import { own } from "./own";

// Until when a key is the second one after g.
let second = 0;

const stored = "capgate.keys";
let off = localStorage.getItem(stored) === "off";

/** keysOff reports whether single keys do nothing. */
export const keysOff = () => off;

/** switchKeys turns single keys off or on, for this browser. Speech input presses them by accident. */
export function switchKeys(to: "off" | "on") {
  off = to === "off";
  if (off) localStorage.setItem(stored, to);
  else localStorage.removeItem(stored);
}

/**
 * useKeys handles keys that are pressed outside of fields and dialogs. With chords, g begins one; no other handler gets
 * its second key.
 */
export function useKeys(keys: Record<string, () => void>, chords?: Record<string, () => void>) {
  const current = useRef({ keys, chords });
  current.current = { keys, chords };
  useLayoutEffect(() => {
    // what is shown has its keys
    const pressed = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (
        (off && e.key.length === 1) ||
        e.ctrlKey ||
        e.metaKey ||
        e.altKey ||
        at.closest("input:not([type=checkbox]), textarea, select") ||
        document.querySelector("dialog[open]")
      )
        return;
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
      const act = own(now.keys, e.key);
      if (!act) return;
      e.preventDefault(); // a field that takes the focus now does not get the key
      act();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}
