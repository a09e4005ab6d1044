// A backend is drained and undrained from the console while calls run. No call fails.
import { invoke } from "../gateway.mjs";

export default async ({ context, args }) => {
  const page = await (await context({ viewport: { width: 1280, height: 800 } })).newPage();
  await page.goto(args.origins[0] + "/#/fleets/free");
  const row = page.locator("tr", { hasText: args.backend });
  await row.waitFor();
  let running = true,
    calls = 0;
  const failed = [];
  const load = (async () => {
    while (running) {
      const answer = await invoke(args.public, "free", { n: calls++ }, 0);
      if (!answer.ok) failed.push(await answer.text());
      else await answer.arrayBuffer();
    }
  })();
  await row.getByRole("button", { name: "Drain" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
  await row.getByText("draining").waitFor();
  await row.getByRole("button", { name: "Undrain" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undrain", exact: true }).click();
  await row.getByRole("button", { name: "Drain", exact: false }).waitFor();
  await row.getByText("draining").waitFor({ state: "detached" });
  // The last usable one needs one more word.
  const only = page.locator("tr", { hasText: args.other });
  await row.getByRole("button", { name: "Drain" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
  await row.getByText("draining").waitFor();
  await only.getByRole("button", { name: "Drain" }).click();
  const last = await page.getByRole("dialog").getByText("even though it is the last one").innerText();
  running = false;
  await load;
  return { calls, failed, last };
};
