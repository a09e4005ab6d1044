// A page of an attacker, in the browser of a person who is signed in at both ports.
import { become, signIn } from "../person.mjs";

export default async ({ context, args }) => {
  const [admin, site, issuer, attacker, namedAdmin, namedSite] = args.origins;
  const saw = { framed: [], loaded: [], sent: {}, read: [], next: [], named: [] };
  const inbox = await signIn({ context, issuer, person: { sub: "bob", scope: "approve read" } }, site + "/inbox");
  const c = inbox.context();
  await inbox.getByText("carol").waitFor();
  await become(c, issuer, { groups: ["ops"] });
  const console = await c.newPage();
  await console.goto(admin + "/");
  await console.getByRole("link", { name: "Sign in with corp" }).click();
  await console.getByRole("banner").getByText("Live", { exact: true }).waitFor();
  const page = await c.newPage();
  await page.goto(attacker + "/");

  // Frames.
  const program = `/cli?port=0&state=ABCDEFGH&challenge=${"A".repeat(43)}`;
  for (const url of [
    attacker + "/",
    site + "/inbox",
    site + "/inbox/signin",
    site + "/docs",
    site + "/docs/errors",
    admin + "/",
    admin + "/signin",
    admin + program,
    admin + "/docs",
  ]) {
    const predicate = (f) => f.parentFrame() !== null && /^(http|chrome-error):/.test(f.url());
    const [frame] = await Promise.all([
      page.waitForEvent("framenavigated", { predicate }),
      page.evaluate((url) => {
        const frame = document.createElement("iframe");
        frame.src = url;
        document.body.replaceChildren(frame);
      }, url),
    ]);
    saw.loaded.push(url);
    if (!frame.url().startsWith("chrome-error:")) saw.framed.push(frame.url());
  }

  // Requests with effects, by scripts and by forms.
  const effects = [
    site + `/inbox/v1/approvals/${args.id}/approve`,
    site + "/inbox/signout",
    admin + `/v1/approvals/${args.id}/approve?tenant=acme`,
    admin + "/v1/sessions:revoke",
    admin + "/signout",
    admin + "/signin/key",
  ];
  const other = await c.newPage();
  for (const url of effects) {
    const [answer] = await Promise.all([
      page.waitForResponse(url),
      page.evaluate((to) => fetch(to, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }), url),
    ]);
    saw.sent[url] = answer.status();
    await other.goto(attacker + "/");
    const [by] = await Promise.all([
      other.waitForResponse(url),
      other.waitForURL(url),
      other.evaluate((to) => {
        const form = document.createElement("form");
        form.method = "post";
        form.action = to;
        document.body.append(form);
        form.submit();
      }, url),
    ]);
    saw.sent["a form to " + url] = by.status();
  }

  // Answers.
  for (const url of [
    site + "/inbox/v1/me",
    site + "/inbox/v1/approvals",
    admin + "/v1/me",
    admin + "/v1/calls",
    admin + "/",
  ]) {
    const text = await page.evaluate(
      (from) =>
        fetch(from, { credentials: "include" }).then(
          (a) => a.text(),
          () => "",
        ),
      url,
    );
    if (text) saw.read.push(`${url}: ${text.slice(0, 80)}`);
  }

  // The gateway's address by a name of the attacker, as after DNS rebinding.
  const rebound = await c.newPage();
  for (const url of [namedAdmin + "/", namedAdmin + "/v1/me", namedSite + "/inbox"])
    saw.named.push((await rebound.goto(url)).status());

  // Returns to other hosts.
  for (const [base, home] of [
    [admin, admin + "/"],
    [site + "/inbox", site + "/inbox"],
  ]) {
    for (const next of [
      "//www.attacker.example",
      "/\\www.attacker.example",
      attacker,
      "javascript:alert(1)",
      "/#/x",
      "/%09/www.attacker.example",
    ]) {
      await inbox.goto(`${base}/signin?next=${encodeURIComponent(next)}#//www.attacker.example`);
      await inbox.getByRole("link", { name: "Continue" }).click();
      await inbox.waitForURL((url) => !url.pathname.endsWith("/signin"));
      saw.next.push(inbox.url());
    }
    if (!saw.next.at(-1).startsWith(home)) throw new Error(saw.next.at(-1));
  }
  saw.state = (await (await c.request.get(site + "/inbox/v1/approvals/" + args.id)).json()).state;
  return saw;
};
