// The address of the public port, as the console sees it.
import type { Summary } from "../../api/types";
import { useGet } from "../load";
import type { Target } from "./snippets";

/** webURL is a text if it is an address of the web, without a final slash; otherwise empty. */
function webURL(text: string): string {
  try {
    const url = new URL(text);
    return /^https?:$/.test(url.protocol) && !url.username ? url.href.replace(/\/$/, "") : "";
  } catch {
    return "";
  }
}

/** usePublicPort returns the address that programs call: public_url, or the port beside this one; undefined: not known. */
export function usePublicPort(): Target | undefined {
  const { value } = useGet<Summary>("/v1/summary");
  const port = value?.public_port;
  if (!port) return undefined;
  const host = location.hostname.includes(":") ? `[${location.hostname.replace(/^\[|\]$/g, "")}]` : location.hostname;
  return {
    url: webURL(port.url ?? "") || `${port.tls ? "https" : "http"}://${host}:${port.port ?? 0}`,
    key: Boolean(port.credential_required),
  };
}
