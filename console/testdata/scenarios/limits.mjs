// Tenants near a limit, the use of limits by day, and the decisions on all tools as a matrix.
import { layout, serious } from "../check.mjs";

const tools = Array.from({ length: 300 }, (_, i) => `tool_${String(i).padStart(4, "0")}`);
const callers = [
  {},
  ...Array.from({ length: 49 }, (_, i) => ({ user: `user${String(i).padStart(2, "0")}@acme.example` })),
];

export default async ({ context, args }) => {
  const [origin] = args.origins;
  const c = await context({ viewport: { width: 1280, height: 860 } });
  const p = await c.newPage();
  const saw = { wrong: [], clicks: 0 };
  await p.route(
    (url) => url.pathname === "/v1/policies:matrix",
    (route) => {
      const q = new URL(route.request().url()).searchParams;
      if (!q.get("tenant") || q.get("tenant") === "-")
        return route.fulfill({ status: 400, json: { reason: "TENANT_REQUIRED", detail: "name one", status: 400 } });
      const found = tools.filter((t) => t.includes(q.get("query") ?? ""));
      const from = Number(q.get("page_token") || 0),
        to = from + Number(q.get("page_size"));
      return route.fulfill({
        json: {
          decisions: found
            .slice(from, to)
            .flatMap((tool) => callers.map((by) => ({ ...by, tool, policy: "ask", level: "tenant" }))),
          next_page_token: to < found.length ? String(to) : "",
          tools: found.length,
          callers: callers.length,
        },
      });
    },
  );

  // Is anyone near a limit? One click from the start.
  await p.goto(origin + "/#/");
  await p.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await p.getByRole("listitem").filter({ hasText: "acme has used 86%" }).getByRole("link").click();
  saw.clicks++;
  const near = p.getByRole("region", { name: "Near a limit" });
  await near.waitFor();
  saw.near = (await near.innerText()).replace(/\s+/g, " ");
  const bars = p.locator(".days rect");
  await bars.first().waitFor();
  saw.bars = await bars.count();
  await p.getByLabel("Days", { exact: true }).selectOption("30");
  await p.waitForFunction(() => document.querySelector(".days svg").viewBox.baseVal.width === 300);
  saw.days = await p.evaluate(() => document.querySelector(".days svg").viewBox.baseVal.width);
  saw.address = new URL(p.url()).hash;
  await p.getByText("Numbers").first().click();
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));

  // The matrix of a tenant.
  await p.goto(origin + "/#/policies/matrix");
  await p.getByText("Choose a tenant").waitFor();
  saw.choose = await p.locator("main .empty").innerText();
  await p.getByLabel("Tenant", { exact: true }).selectOption("acme");
  const cells = p.locator(".matrix a.cell");
  await cells.first().waitFor();
  saw.cells = await cells.count();
  const scroll = () => {
    window.scrollTo(0, document.documentElement.scrollHeight);
    return !document.querySelector(".more");
  };
  await p.waitForFunction(scroll, undefined, { polling: 100 });
  await p.evaluate(scroll);
  const last = p.getByRole("link", { name: /tool_0299 for user user07@/ });
  await last.waitFor();
  saw.nodes = await p.evaluate(() => document.querySelectorAll("main *").length);
  saw.wide = await p.evaluate(() => {
    const box = document.querySelector(".matrix");
    return box.scrollWidth > box.clientWidth && document.documentElement.scrollWidth <= innerWidth;
  });
  await p.getByRole("searchbox", { name: "Search tools" }).fill("tool_029");
  await p.waitForFunction(() => /^10 tools/.test(document.querySelector("main .card-head h2")?.innerText ?? ""));
  saw.shared = new URL(p.url()).hash;
  saw.wrong.push(...(await layout(p)), ...(await serious(p)));
  await last.click();
  const decision = p.getByRole("heading", { name: /^Decision/ });
  await decision.waitFor();
  saw.decision = (await decision.innerText()).replace(/\s+/g, " ");
  saw.explain = new URL(p.url()).hash;
  return saw;
};
