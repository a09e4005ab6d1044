// The address of the public port, as the console sees it.
import type { Summary } from "../../api/types";
import { useGet } from "../load";
import type { Target } from "./snippets";

/** usePublicPort returns the address that programs call: public_url, or the port beside this one; undefined: not known. */
export function usePublicPort(): Target | undefined {
  const { value } = useGet<Summary>("/v1/summary");
  const port = value?.public_port;
  if (!port) return undefined;
  const host = location.hostname.includes(":") ? `[${location.hostname.replace(/^\[|\]$/g, "")}]` : location.hostname;
  return {
    url: port.url || `${port.tls ? "https" : "http"}://${host}:${port.port ?? 0}`,
    key: Boolean(port.credential_required),
  };
}
