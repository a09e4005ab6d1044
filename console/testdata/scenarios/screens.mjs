// Every screen, in light and dark, wide and on a phone: nothing serious for people with screen readers, and a layout
// that holds. With images, it keeps pictures.
import { layout, open, serious } from "../check.mjs";

const wide = { viewport: { width: 1280, height: 860 } };
const small = { viewport: { width: 320, height: 640 } };

export default async ({ context, args, phone }) => {
  const found = [];
  const look = async (colorScheme, size, options, axe) => {
    const c = await context({ ...options, colorScheme });
    const page = await c.newPage();
    for (const path of args.paths) {
      await open(page, args.origins[0], path);
      const where = `${path} ${colorScheme} ${size}`;
      for (const w of await layout(page)) found.push(`${where}: ${w}`);
      if (axe) for (const w of await serious(page)) found.push(`${where}: ${w}`);
      if (args.images && size !== "small") {
        const name = path.replace(/.*#\//, "").replaceAll("/", "-") || "home";
        const of = path.startsWith("/inbox") ? "public-" : "";
        await page.screenshot({ path: `${args.images}/${of}${name}-${size}-${colorScheme}.png`, caret: "initial" });
      }
    }
    for (const [path, button] of args.dialogs) {
      await open(page, args.origins[0], path);
      await page
        .locator("main button:not(.sort)")
        .and(page.getByRole("button", { name: button }))
        .first()
        .click();
      await page.getByRole("dialog").waitFor();
      for (const w of await layout(page)) found.push(`${path} ${button} ${size}: ${w}`);
      if (axe) for (const w of await serious(page)) found.push(`${path} ${button} ${colorScheme}: ${w}`);
      if (args.images && axe)
        await page.screenshot({
          path: `${args.images}/dialog-${path.replace(/\W+/g, "-")}-${button}-${size}-${colorScheme}.png`,
          caret: "initial",
        });
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    await c.close();
  };
  await Promise.all([look("light", "wide", wide, true), look("dark", "phone", phone, true)]);
  await look("light", "small", small, false);
  if (args.images) {
    await look("dark", "wide", wide, false);
    await look("light", "phone", phone, false);
  }
  return found;
};
