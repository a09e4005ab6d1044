// Every string that somebody outside can choose is hostile, on every screen. No script runs, no link leads elsewhere,
// the layout holds on a narrow phone, and what cannot be seen is shown.
import { layout, settled } from "../check.mjs";

export default async ({ context, args }) => {
  const found = [];
  await Promise.all([0, 1].map(async (half) => {
    const c = await context({ viewport: { width: 320, height: 700 }, colorScheme: half ? "dark" : "light" });
    const page = await c.newPage();
    for (const [i, { name, origin, shows }] of args.cases.entries()) {
      if (i % 2 !== half) continue;
      for (const path of args.paths) {
        await page.goto(origin + path);
        await settled(page);
        for (const fold of await page.locator("main .fold[aria-expanded=false]").all()) {
          if (await fold.isVisible()) await fold.click({ timeout: 2000 }).catch(() => {});
          break;
        }
        const where = `${name} ${path}`;
        for (const w of await layout(page)) found.push(`${where}: ${w}`);
        if (await page.evaluate(() => "hacked" in window)) found.push(`${where}: a script ran`);
        if (new URL(page.url()).origin !== origin) found.push(`${where}: it leads to ${page.url()}`);
        if (path === "/#/inbox/apr_A") {
          const text = await page.locator("main").innerText();
          for (const part of shows) if (!text.includes(part)) found.push(`${where}: ${part} is not shown`);
        }
      }
    }
    await c.close();
  }));
  return found;
};
