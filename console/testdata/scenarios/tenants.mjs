// A person who approves for two tenants: the list of both, links of both, a tenant that is chosen, and a link to a third.
import { layout, serious } from "../check.mjs";
import { invoke } from "../gateway.mjs";
import { signIn } from "../person.mjs";

export default async ({ context, args, phone }) => {
  const [site, issuer] = args.origins;
  const page = await signIn(
    { context, issuer, person: { sub: "dan", scope: "approve read" }, options: phone },
    `${site}/inbox#/`,
  );
  const saw = { found: [] };
  const cards = page.locator("article.approval[data-state=pending]");
  const of = (id) => page.locator(`article.approval[data-id="${id}"]`);
  const choice = page.getByLabel("Tenant", { exact: true });
  const link = async (tenant, id) => {
    await page.evaluate((to) => {
      location.hash = to;
    }, `#/${tenant}/${id}`);
    await page.getByRole("heading", { level: 1, name: "Approval" }).waitFor();
  };
  await of(args.own).waitFor();
  await of(args.other).waitFor();
  saw.cards = await cards.allInnerTexts();
  saw.choices = (await choice.locator("option").allInnerTexts()).join(" ");
  saw.found.push(...(await layout(page)), ...(await serious(page)));
  await choice.selectOption("acme");
  await of(args.other).waitFor({ state: "detached" });
  await of(args.own).waitFor();
  saw.chosen = (await cards.evaluateAll((all) => all.map((a) => a.dataset.id))).join(" ");
  // A link to the tenant that is not chosen.
  await link("globex", args.other);
  await of(args.other).getByRole("button", { name: "Deny" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Deny once" }).click();
  saw.denied = await of(args.other).locator(".outcome").innerText();
  await link("acme", args.own);
  await of(args.own).getByRole("button", { name: "Approve" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve once" }).click();
  saw.approved = await of(args.own).locator(".outcome").innerText();
  await link("initech", args.foreign);
  saw.away = await page.locator("main .empty").innerText();
  saw.found.push(...(await layout(page)), ...(await serious(page)));
  // A call of the second tenant appears by itself.
  await page.getByRole("link", { name: "All approvals" }).click();
  await page.getByRole("tab", { name: /^Waiting/ }).waitFor();
  const answer = invoke(args.public, "caps", { fresh: true }, 0, { authorization: `Bearer ${args.key}` });
  saw.live = await cards.innerText();
  await answer;
  return saw;
};
