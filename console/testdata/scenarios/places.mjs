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
  await p.getByText("The charts show earlier measurements.").waitFor();
  saw.removedCharts = await p.getByRole("heading", { name: "Over time" }).count();

  // A tool that its capability does not have has no charts either.
  await p.goto(origin + "/#/tools/mail/nope");
  await p.getByText("The capability has no tool").waitFor();
  saw.toolCharts = await p.getByRole("heading", { name: "Over time" }).count();
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));

  // One box finds each kind: exact names before other names, and those before calls.
  const serve = (path, field, items) =>
    p.route(
      (url) => url.pathname === path,
      (route) => route.fulfill({ json: { [field]: items, total_size: items.length } }),
    );
  const waiting = { id: "apr_Z", state: "pending", tenant: "acme", user: "robot", capability: "mail", tool: "send" };
  await p.route(
    (url) => url.pathname === "/v1/approvals" && url.searchParams.has("text"),
    (route) => {
      const found = route.request().url().includes("text=robot") ? [waiting] : [];
      return route.fulfill({ json: { approvals: found } });
    },
  );
  await serve("/v1/calls", "calls", [
    {
      id: "c-9",
      time: new Date().toISOString(),
      tenant: "acme",
      user: "robot",
      agent: "robot-2",
      capability: "mail",
      tool: "send",
      code: "OK",
      request_id: "r-robot",
      trace_id: "robot4bf9",
      trace_link: "https://traces.example.com/robot4bf9",
    },
  ]);
  await serve("/v1/fleets", "fleets", []);
  await serve("/v1/tools", "tools", [{ capability: "mail", tool: "robot_tool" }]);
  await serve("/v1/toolsets", "toolsets", [{ name: "robot_set", tenant: "acme" }]);
  await serve("/v1/tenants", "tenants", [{ id: "robots", name: "Robots" }]);
  await serve("/v1/tenants/-/keys", "keys", [{ id: "k_1", name: "robot", tenant: "acme", state: "active" }]);
  await p.route(
    (url) => url.pathname === "/v1/approvals/apr_robot",
    (route) => route.fulfill({ json: { id: "apr_robot", state: "pending", tool: "send", tenant: "acme" } }),
  );
  const found = async (query) => {
    await p.goto(origin + "/#/audit");
    await p.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    await p.keyboard.press("Control+k");
    await p.getByRole("combobox", { name: "Find" }).fill(query);
    await p.getByRole("option", { name: /robot/ }).first().waitFor();
    const all = await p.getByRole("dialog").getByRole("option").allInnerTexts();
    await p.keyboard.press("Escape");
    return all.map((o) => o.trim().split(/\s/)[0]);
  };
  saw.kinds = await found("robot");
  saw.approval = await found("apr_robot");
  return saw;
};
