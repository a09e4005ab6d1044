// Every string that somebody outside can choose is hostile, on every screen and in every question. No script runs, no
// link leads elsewhere, the layout holds on a narrow phone, and what cannot be seen is shown.
import { layout, open } from "../check.mjs";

/** The strings that are also looked at in questions. */
const asked = ["script", "bidi", "long"];

/** unfold runs in the page, and shows the whole of the first text that is cut, in front. */
async function unfold() {
  const front = document.querySelector("dialog[open]") ?? document.querySelector("main");
  const fold = front.querySelector(".fold[aria-expanded=false]");
  if (!fold?.checkVisibility()) return;
  fold.click();
  await new Promise(requestAnimationFrame);
  if (fold.isConnected && fold.ariaExpanded !== "true") throw new Error("it does not unfold");
}

export default async ({ context, args }) => {
  const found = [];
  let shown = 0;
  const one = async (page, { name, origin, shows }) => {
    const look = async (where) => {
      for (const w of await layout(page)) found.push(`${name} ${where}: ${w}`);
      if (new URL(page.url()).origin !== origin) found.push(`${name} ${where}: it leads to ${page.url()}`);
    };
    const show = (path) => open(page, origin, path);
    const close = async () => {
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    };
    const dialog = page.getByRole("dialog");
    for (const path of args.paths) {
      await show(path);
      await page.evaluate(unfold);
      await look(path);
      if (path === "/#/inbox/apr_B") {
        const text = await page.locator("main").innerText();
        for (const part of shows) {
          if (text.includes(part)) shown++;
          else found.push(`${name} ${path}: ${part} is not shown`);
        }
      }
    }
    if (!asked.includes(name)) return;
    for (const [path, button] of args.dialogs) {
      await show(path);
      // Where all is the same, approvals are alike.
      const buttons = page.locator("main button:not(.sort)").and(page.getByRole("button", { name: button }));
      const asks = buttons.or(page.locator("main").getByRole("button", { name: "together" })).first();
      // Capabilities are one, too, and the versions of a tool do not differ.
      if (["Accept this version", "Discover"].includes(button) && !(await asks.count())) continue;
      await asks.click();
      await dialog.waitFor();
      await look(`${path}, ${button}`);
      await close();
    }
    await show("/#/calls");
    await page.locator("main tbody a").first().click();
    await dialog.getByRole("link", { name: "Why this policy" }).waitFor();
    await look("a call");
    await close();
    await show("/#/tenants/acme");
    await page.getByRole("button", { name: "Create a key" }).click();
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.locator("code.secret").waitFor();
    await look("a new key");
    await dialog.getByRole("button", { name: "I have copied it" }).click();
    await dialog.waitFor({ state: "detached" });
    await show("/#/tools/mail/send_mail");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".record").first().waitFor();
    await look("an answer");
  };
  await Promise.all(
    [0, 1].map(async (half) => {
      const c = await context({ viewport: { width: 320, height: 700 }, colorScheme: half ? "dark" : "light" });
      const page = await c.newPage();
      for (const [i, each] of args.cases.entries()) if (i % 2 === half) await one(page, each);
      await c.close();
    }),
  );
  if (!shown) found.push("no part of a hostile string was looked for");
  return found;
};
