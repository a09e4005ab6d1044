// People of scenarios, who sign in at the issuer of the tests.

/** signIn opens a page that needs a session, in a window of its own, and signs in by the button of the issuer. */
export async function signIn({ context, issuer, person, options = {} }, url) {
  const c = await context({ ignoreHTTPSErrors: true, ...options });
  await become(c, issuer, person);
  const page = await c.newPage();
  await page.goto(url);
  await page.getByRole("link", { name: "Sign in with corp" }).click();
  return page;
}

/** become says who signs in from now on: claims of an ID token. */
export async function become(c, issuer, person) {
  const answer = await c.request.post(issuer + "/test/people", { data: { person } });
  if (!answer.ok()) throw new Error(`the issuer: ${answer.status()}`);
}
