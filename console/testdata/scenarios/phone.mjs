// A person opens the link of a notice on a phone, signs in, and approves the call that the link names.
import { layout, serious } from "../check.mjs";

export default async ({ context, args, phone }) => {
  const page = await (await context({ ...phone, ignoreHTTPSErrors: true })).newPage();
  const saw = {};
  await page.goto(args.link);
  const button = page.getByRole("link", { name: "Sign in with corp" });
  await button.waitFor();
  saw.first = page.url().slice(new URL(page.url()).origin.length);
  await button.tap();
  const card = page.locator("article.approval[data-state=pending]");
  await card.waitFor();
  saw.address = page.url();
  saw.card = await card.innerText();
  saw.others = (await page.locator("article.approval").count()) - 1;
  saw.found = [...(await layout(page)), ...(await serious(page))];
  await card.getByRole("button", { name: "Approve" }).tap();
  await page.getByRole("dialog").getByRole("button", { name: "Approve once" }).tap();
  saw.outcome = await page.locator("article.approval[data-state=used] .outcome").innerText();
  return saw;
};
