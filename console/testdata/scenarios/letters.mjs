// A dead letter is queued again, after a question. A viewer sees why it may not.
import { settled } from "../check.mjs";

export default async ({ context, args }) => {
  const page = await (await context()).newPage();
  await page.goto(args.origins[0] + "/#/webhooks");
  await page.getByRole("button", { name: "Retry evt_51" }).click();
  const sent = page.waitForRequest((r) => r.method() === "POST" && r.url().includes("/v1/webhooks/dead/"));
  await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  const path = new URL((await sent).url()).pathname;
  await page.getByText("The event waits for another delivery.").waitFor();
  await page.route("**/v1/me", (route) => route.fulfill({ json: { name: "eve", roles: ["viewer"] } }));
  await page.reload();
  await settled(page);
  const button = page.getByRole("button", { name: "Retry evt_51" });
  const may = [String(await button.isDisabled()), await button.getAttribute("title")];
  // An empty list says whether notices are configured at all.
  const empty = [],
    letters = /\/v1\/webhooks\/dead\?/;
  for (const destinations of [["slack-ops", "mail"], []]) {
    await page.unroute(letters);
    await page.route(letters, (route) => route.fulfill({ json: { dead: [], destinations } }));
    await page.reload();
    await settled(page);
    empty.push((await page.locator("main .empty").innerText()).replace(/\s+/g, " "));
  }
  return [path, ...may, ...empty, await page.locator("main .empty a").getAttribute("href")];
};
