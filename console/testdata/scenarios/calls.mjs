// A call among the last ones leads to its trace, and to the policy that decided.
import { invoke } from "../gateway.mjs";

export default async ({ context, args }) => {
  const [admin, traces] = args.origins;
  const c = await context({ viewport: { width: 1280, height: 900 } });
  await c.route(traces + "/**", (route) =>
    route.fulfill({ contentType: "text/html", body: "<!doctype html><title>A trace</title>" }),
  );
  const page = await c.newPage();
  const saw = {};
  await page.goto(admin + "/#/calls");
  await page.getByRole("banner").getByText("Live", { exact: true }).waitFor();
  const answer = await invoke(args.public, "caps", { n: 1 }, 0);
  if (!answer.ok) throw new Error(await answer.text());
  await page.getByRole("table", { name: "Calls" }).getByRole("link", { name: "caps / echo" }).click();
  const dialog = page.getByRole("dialog", { name: "Call" });
  saw.trace = await dialog
    .locator("dt", { hasText: /^Trace$/ })
    .locator("xpath=following-sibling::dd")
    .innerText();
  const opened = c.waitForEvent("page");
  await dialog.getByRole("link", { name: "Trace" }).click();
  const other = await opened;
  await other.waitForLoadState();
  saw.opened = other.url();
  saw.opener = String(await other.evaluate(() => window.opener));
  await other.close();
  await dialog.getByRole("link", { name: "Why this policy" }).click();
  saw.decided = await page.locator(".chain .decided").innerText();
  saw.policy = decodeURIComponent(new URL(page.url()).hash);
  return saw;
};
