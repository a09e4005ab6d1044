import { useEffect, useState } from "preact/hooks";
import { now } from "../api/client";

/** useNow is the gateway's time in ms, again every so many ms. */
export function useNow(every = 1000): number {
  const [time, set] = useState(now);
  useEffect(() => {
    const timer = window.setInterval(() => set(now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return time;
}
