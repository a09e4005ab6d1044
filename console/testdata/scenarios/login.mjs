// A person opens the address that capgate login prints, and lets the program in: on this machine, and on another by a code.
import { layout, serious } from "../check.mjs";

export default async ({ context, args }) => {
  const page = await (await context({ ignoreHTTPSErrors: true })).newPage();
  const found = [];
  await page.goto(args.address);
  await page.getByRole("link", { name: "Sign in with corp" }).click();
  const yes = page.getByRole("button", { name: "Let it in" });
  await yes.waitFor();
  const asked = await page.locator("main").innerText();
  found.push(...(await layout(page)), ...(await serious(page)));
  await yes.click();
  await page.waitForURL((url) => url.port === new URL(args.address).searchParams.get("port"));
  const answer = await page.locator("body").innerText();
  await page.goto(args.remote);
  await yes.click();
  await page.getByRole("heading", { name: "Code for" }).waitFor();
  found.push(...(await layout(page)), ...(await serious(page)));
  return { asked, answer, code: await page.locator("code.secret").innerText(), found };
};
