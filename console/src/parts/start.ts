import { useMemo } from "preact/hooks";
import { now } from "../api/client";

/** useStart is the time so many hours ago, as long as they stay the same; "": none. */
export const useStart = (hours: number | undefined) =>
  useMemo(() => (hours ? new Date(now() - hours * 3_600_000).toISOString() : ""), [hours]);
