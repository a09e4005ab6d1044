// Approvals that wait, for scenarios that choose them: a list in pages, answers, and events when the scenario says so.

/** approval returns one that waits since a moment ago. */
export function approval(n, more = {}) {
  const time = new Date(Date.now() - 600_000 + n).toISOString();
  return {
    name: `tenants/acme/approvals/apr_${n}`,
    id: `apr_${n}`,
    tenant: "acme",
    user: "ann",
    agent: "bot",
    capability: "mail",
    tool: "send_mail",
    state: "pending",
    level: "tenant",
    create_time: time,
    update_time: time,
    expire_time: new Date(Date.now() + 1_800_000 + n * 100).toISOString(),
    arguments_json: JSON.stringify({ to: `person-${n}@example.com`, subject: "hello" }),
    may_answer: true,
    ...more,
  };
}

/** serve answers the requests of a page or a context about approvals. It returns what was requested. */
export async function serve(page, all) {
  const lists = [],
    answers = [],
    waiting = new Map();
  let arrived = () => {};
  const json = (route, value, status = 200) => route.fulfill({ status, json: value });
  await page.route(
    (url) => url.pathname.endsWith("/v1/approvals"),
    (route) => {
      const query = new URL(route.request().url()).searchParams;
      lists.push(Object.fromEntries(query));
      const text = query.get("text") ?? "",
        at = Number(query.get("page_token") || 0),
        size = Number(query.get("page_size") || 50);
      const found = all.filter(
        (a) =>
          (!query.get("state") || a.state === query.get("state")) &&
          (!query.get("tool") || a.tool === query.get("tool")) &&
          (!text || [a.tool, a.user, a.agent].some((f) => f.includes(text))),
      );
      if (query.get("order") !== "oldest") found.reverse();
      return json(route, {
        approvals: found.slice(at, at + size),
        next_page_token: at + size < found.length ? String(at + size) : "",
        ...(at === 0 && { total_pending: all.filter((a) => a.state === "pending").length }),
      });
    },
  );
  await page.route(
    (url) => /\/v1\/approvals\/[^/]+\/(approve|deny)$/.test(url.pathname),
    (route) => {
      const [id, verb] = new URL(route.request().url()).pathname.split("/").slice(-2);
      answers.push({ id, verb, ...route.request().postDataJSON() });
      const a = all.find((each) => each.id === id);
      if (a.refuse) return json(route, { status: 409, ...a.refuse }, 409);
      const time = new Date().toISOString();
      const state = verb === "approve" ? "approved" : "denied";
      Object.assign(a, { state, update_time: time, answer_time: time, answered_by: "me", remember: "call" });
      return json(route, a);
    },
  );
  await page.route(
    (url) => url.pathname.endsWith("/v1/approvals/events"),
    (route) => {
      waiting.set(route.request(), route);
      arrived();
    },
  );
  page.on("requestfailed", (request) => waiting.delete(request));
  return {
    lists,
    answers,
    /** tell sends an event to the page that asks for events next, or has. */
    async tell(kind, a) {
      while (!waiting.size)
        await new Promise((done, failed) => {
          const timer = setTimeout(failed, 60_000, new Error("no page asks for events"));
          arrived = () => {
            clearTimeout(timer);
            done();
          };
        });
      const [[request, route]] = waiting;
      waiting.delete(request);
      await route.fulfill({
        contentType: "text/event-stream",
        body: `id: 1\nevent: ${kind}\ndata: ${JSON.stringify(a)}\n\n`,
      });
    },
  };
}
