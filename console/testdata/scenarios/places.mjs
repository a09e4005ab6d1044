// Pages of one fleet: their heading, what does not exist, and the length of time of the charts in the address.
import { layout, serious } from "../check.mjs";

export default async ({ context, args }) => {
  const [origin] = args.origins;
  const p = await (await context({ viewport: { width: 1280, height: 860 } })).newPage();
  const saw = { wrong: [] };
  await p.route(
    (url) => url.pathname === "/v1/fleets" && url.searchParams.get("capability") === "nope",
    (route) => route.fulfill({ json: { fleets: [], total_size: 0, gateway: { replica: "gw", redis: "ok" } } }),
  );
  const asked = p.waitForRequest((r) => r.url().includes("/v1/history/fleets/mail") && r.url().includes("span=24h"));
  await p.goto(origin + "/#/fleets/mail?span=24h");
  await asked;
  await p.getByRole("heading", { level: 1, name: "mail", exact: true }).waitFor();
  saw.pressed = await p.getByRole("button", { pressed: true }).innerText();
  const week = p.waitForRequest((r) => r.url().includes("/v1/history/fleets/mail") && r.url().includes("span=7d"));
  await p.getByRole("button", { name: "7 days" }).click();
  await week;
  saw.address = new URL(p.url()).hash;
  await p.goBack();
  await p.getByRole("button", { name: "24 hours", pressed: true }).waitFor();

  await p.goto(origin + "/#/fleets/nope");
  await p.getByText("There is no fleet").waitFor();
  saw.charts = await p.getByRole("heading", { name: "Over time" }).count();
  saw.heading = await p.getByRole("heading", { level: 1 }).innerText();
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));
  await p.goto(origin + "/#/fleets/mail/192.0.2.1:1");
  await p.getByText("The fleet has no backend").waitFor();
  return saw;
};
