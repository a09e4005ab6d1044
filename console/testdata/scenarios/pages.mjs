// The pages that are no screens: sign-in with all that it may say, what a program asks, and the errors. They are looked
// at in light and dark, wide and on a phone. Then people with hostile names see them.
import { layout, serious } from "../check.mjs";
import { become, signIn } from "../person.mjs";

const program = `/cli?port=0&state=ABCDEFGH&challenge=${"A".repeat(43)}`;
const wide = { viewport: { width: 1280, height: 860 } };
const small = { viewport: { width: 320, height: 640 } };

export default async ({ context, args, phone }) => {
  const [admin, site, issuer] = args.origins;
  const found = [];
  const ops = { groups: ["ops"] };
  const look = async (page, where, axe = true) => {
    await page.locator("h1").waitFor();
    for (const w of await layout(page)) found.push(`${where}: ${w}`);
    if (axe) for (const w of await serious(page)) found.push(`${where}: ${w}`);
  };
  const all = async (name, options) => {
    const c = await context({ ignoreHTTPSErrors: true, ...options });
    const page = await c.newPage();
    for (const path of [
      admin + "/signin",
      admin + "/signin?out=1",
      admin + "/signin?ended=1",
      admin + "/cli?port=x",
      site + "/inbox/signin",
      site + "/docs/errors",
    ]) {
      await page.goto(path);
      await look(page, `${path} ${name}`, options.colorScheme === "dark" || !path.endsWith("/errors")); // it is long
    }
    for (const base of [admin, site + "/inbox"]) {
      await page.goto(base + "/signin");
      await page.locator("#key").fill("cg_wrong");
      await page.getByRole("button", { name: "Sign in", exact: true }).click();
      await page.getByRole("alert").waitFor();
      await look(page, `${base}, a wrong key, ${name}`);
    }
    await become(c, issuer, ops);
    await page.goto(admin + program);
    await page.getByRole("link", { name: "Sign in with corp" }).click();
    await look(page, `a program, ${name}`);
    await page.getByRole("button", { name: "Let it in" }).click();
    await page.getByRole("heading", { name: "Code for" }).waitFor();
    await look(page, `a code, ${name}`);
    await page.goto(admin + "/signin");
    await look(page, `signed in, ${name}`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You have signed out.").waitFor();
    await c.close();
  };
  await Promise.all([
    all("light wide", { ...wide, colorScheme: "light" }),
    all("dark phone", { ...phone, colorScheme: "dark" }),
  ]);
  for (const name of args.names) {
    const where = JSON.stringify(name.slice(0, 20));
    const page = await signIn({ context, issuer, person: { ...ops, sub: name }, options: small }, admin + program);
    await look(page, `a program, ${where}`, false);
    const shown = await page.locator("main strong").first().innerText();
    if (!shown.includes(", issuer corp")) found.push(`${where} is shown as ${shown}`);
    for (const path of ["/signin", "/signin?next=" + encodeURIComponent(name), "/#/" + encodeURIComponent(name)]) {
      await page.goto(admin + path);
      await look(page, `${path}, ${where}`, false);
    }
    await page.context().close();
  }
  return found;
};
