// An approval expires on the screen, without a reload and without an event.
import { invoke } from "../gateway.mjs";

export default async ({ context, args, phone }) => {
  const page = await (await context(phone)).newPage();
  await page.goto(args.origins[0] + "/#/inbox");
  await page.getByText("Nothing waits for you").waitFor();
  const call = invoke(args.public, "caps", { n: 1 });
  await page.locator("article.approval .countdown").waitFor();
  await page.route("**/v1/**", (route) => route.abort());
  const over = page.locator("article.approval[data-state=expired]");
  await over.waitFor();
  await call;
  return { text: await over.innerText(), buttons: await over.getByRole("button", { name: /Approve|Deny/ }).count() };
};
