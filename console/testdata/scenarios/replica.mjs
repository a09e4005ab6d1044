// The replica behind the page dies. The page says so, finds another, and shows what that one knows.
import { invoke, post } from "../gateway.mjs";

export default async ({ context, args, phone }) => {
  const page = await (await context(phone)).newPage();
  await page.goto(args.origins[0] + "/#/inbox");
  const first = invoke(args.public, "caps", { n: 1 });
  await page.locator("article.approval[data-state=pending]").waitFor();
  await post(args.control, "/stop");
  await page.getByText("The connection is lost").waitFor();
  await post(args.control, "/switch");
  await page.getByText("The connection is lost").waitFor({ state: "detached" });
  const second = invoke(args.public, "caps", { n: 2 });
  await page.locator("article.approval[data-state=pending]").nth(1).waitFor();
  for (const pending of [0, 1]) {
    await page.locator("article.approval[data-state=pending]").first().getByRole("button", { name: "Approve" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Approve once" }).click();
    await page
      .locator("article.approval[data-state=pending]")
      .nth(1 - pending)
      .waitFor({ state: "detached" });
  }
  return [(await first).status, (await second).status];
};
