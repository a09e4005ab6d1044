// A long call is seen whole before it is approved, and no key acts on a button that the person has not moved to.
import { invoke } from "../gateway.mjs";

export default async ({ context, args }) => {
  const [admin] = args.origins;
  const saw = { screens: [] };
  for (const viewport of [
    { width: 1440, height: 900 },
    { width: 1366, height: 768 },
  ]) {
    const page = await (await context({ viewport })).newPage();
    await page.goto(admin + "/#/inbox");
    await page.getByText("Nothing is waiting for you").waitFor();
    const call = invoke(args.public, "caps", { to: "bob", body: args.body, n: viewport.width, z: args.long });
    const card = page.locator("article.approval[data-state=pending]");
    await card.waitFor();
    const one = { excerpt: await card.innerText() };
    await page.keyboard.press("j");
    await page.keyboard.press("a");
    const dialog = page.getByRole("dialog");
    const button = dialog.getByRole("button", { name: "Approve once" });
    await dialog.locator("button.approve:enabled").waitFor(); // all is read
    one.focused = await page.evaluate(() => document.activeElement.tagName);
    one.whole = await dialog.getByRole("region", { name: "All arguments" }).innerText();
    for (const key of ["Space", "Enter", "y", "Space"]) await page.keyboard.press(key);
    one.afterKeys = await card.getAttribute("data-state");
    const box = await button.boundingBox();
    one.inSight = box !== null && box.y + box.height <= viewport.height;
    await dialog.getByLabel(/Comment/).fill("seen");
    await page.keyboard.press("Tab"); // Cancel
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    one.status = (await call).status;
    await dialog.waitFor({ state: "hidden" });

    // A denial whose reason begins at once.
    const second = invoke(args.public, "caps", { second: viewport.width });
    const asked = page.locator("article.approval[data-state=pending]");
    await asked.waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("d");
    await dialog.waitFor();
    await page.keyboard.type("not now, thanks");
    one.afterTyping = await asked.getAttribute("data-state");
    await dialog.getByLabel(/Reason/).fill("not now, thanks");
    await dialog.getByRole("button", { name: "Deny once" }).click();
    one.reason = await (await second).text();
    saw.screens.push(one);
    await page.close();
  }
  return saw;
};
