// Between the widths of a phone and of a desk, the navigation leaves the least room for tables: nothing overflows.
import { layout, open } from "../check.mjs";

export default async ({ context, args }) => {
  const found = [];
  const page = await (await context({ viewport: { width: 861, height: 800 } })).newPage();
  for (const path of args.paths) {
    await open(page, args.origins[0], path);
    for (const width of [861, 940, 1060, 1200, 1201]) {
      await page.setViewportSize({ width, height: 800 });
      for (const w of await layout(page)) found.push(`${path} at ${width} px: ${w}`);
    }
  }
  return found;
};
