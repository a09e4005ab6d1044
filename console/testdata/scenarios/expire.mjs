// An approval expires on the screen by the clock of the page: without a reload, and without an event of the gateway, for
// which it is still pending.
import { invoke } from "../gateway.mjs";

export default async ({ context, args, phone }) => {
  const page = await (await context(phone)).newPage();
  await page.clock.install();
  await page.goto(args.origins[0] + "/#/inbox");
  await page.getByText("Nothing is waiting for you").waitFor();
  await invoke(args.public, "caps", { n: 1 }, 0);
  await page.locator("article.approval .countdown").waitFor();
  await page.route("**/v1/**", (route) => route.abort());
  await page.clock.fastForward("11:00");
  const over = page.locator("article.approval[data-state=expired]");
  await over.waitFor();
  return { text: await over.innerText(), buttons: await over.getByRole("button", { name: /Approve|Deny/ }).count() };
};
