// Sessions are revoked while their pages are open, in the console and in the inbox.
import { signIn } from "../person.mjs";

export default async ({ context, args }) => {
  const [admin, site, issuer] = args.origins;
  const who = {
    console: { base: admin, url: admin + "/#/fleets", person: { groups: ["ops"] }, name: "ann, issuer corp" },
    inbox: {
      base: site + "/inbox",
      url: site + "/inbox#/history",
      person: { sub: "bob", scope: "approve read" },
      name: "bob, issuer corp",
    },
  };
  const me = async (page, base) => await (await page.context().request.get(base + "/v1/me")).json();
  const live = (page) => page.getByRole("banner").getByText("Live", { exact: true }).waitFor();
  for (const one of Object.values(who)) {
    one.page = await signIn({ context, issuer, person: one.person }, one.url);
    await live(one.page);
    one.csrf = (await me(one.page, one.base)).csrf_token;
  }
  const root = await signIn({ context, issuer, person: { sub: "root", groups: ["ops"] } }, admin + "/");
  await live(root);
  const { csrf_token } = await me(root, admin);
  const all = [];
  for (const { base, url, page, name, csrf, person } of Object.values(who)) {
    const answer = await root
      .context()
      .request.post(admin + "/v1/sessions:revoke", { headers: { "X-CSRF-Token": csrf_token }, data: { name } });
    if (!answer.ok()) throw new Error(`${answer.status()} ${await answer.text()}`);
    await page.waitForURL(/\/signin\?/);
    const path = () => page.url().slice(new URL(url).origin.length);
    const saw = {
      page: url.slice(new URL(url).origin.length),
      signin: path(),
      said: await page.getByRole("status").innerText(),
      status: [],
    };
    const { request } = page.context();
    for (const of of ["/v1/me", "/v1/approvals", "/v1/approvals/events"])
      saw.status.push((await request.get(base + of)).status());
    for (const of of ["/v1/approvals/x/approve", "/v1/approvals/x/deny"]) {
      saw.status.push((await request.post(base + of, { headers: { "X-CSRF-Token": csrf }, data: {} })).status());
    }
    // The page of before shows nothing any more.
    await page.goBack();
    await page.waitForURL(/\/signin\?/);
    saw.old = path();
    await page.goto(new URL(url).origin + saw.signin);
    await request.post(issuer + "/test/people", { data: { person } });
    await page.getByRole("link", { name: "Sign in with corp" }).click();
    await live(page);
    saw.back = path();
    all.push(saw);
  }
  return all;
};
