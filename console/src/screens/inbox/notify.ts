// Notifications of the browser for new approvals, if the person wants them.
import type { Approval } from "../../api/types";
import { inWords } from "../../parts/Untrusted";
import { addressOf } from "./address";
import { toolInWords } from "./words";

const stored = "capgate.notify";

/** canNotify reports whether the browser has notifications for this page. */
export const canNotify = () => "Notification" in window && window.isSecureContext;

export const notifies = () =>
  canNotify() && Notification.permission === "granted" && localStorage.getItem(stored) === "on";

/** setNotifies turns notifications on or off. The browser asks the person, so that it must be the result of a click. */
export async function setNotifies(on: boolean): Promise<boolean> {
  if (on && Notification.permission !== "granted") await Notification.requestPermission();
  localStorage.setItem(stored, on ? "on" : "off");
  return notifies();
}

/**
 * notify shows a notification of a new approval that the person may answer, unless the page is in sight. It names the
 * tenant if the page shows several.
 */
export function notify(a: Approval, several: boolean) {
  if (!notifies() || !a.may_answer || document.visibilityState === "visible") return;
  try {
    // One notification for all: the last replaces the one before.
    const shown = new Notification("A call waits for your approval", {
      body:
        `${toolInWords(a.tool)}, asked by ${inWords(a.agent || "an unnamed agent", 80)}` +
        (several ? `, of the tenant ${inWords(a.tenant, 64)}` : ""),
      tag: "capgate-approvals",
    });
    shown.onclick = () => {
      window.focus();
      location.hash = addressOf(a);
      shown.close();
    };
  } catch {
    /* browsers of phones have them for installed pages only */
  }
}
