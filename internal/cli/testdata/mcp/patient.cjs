// The suite waits half a second for many answers, which a busy machine does not always give. It waits PATIENCE times as
// long here. A minute remains a minute.
const setTimeout = globalThis.setTimeout
const longer = ms => ms >= 100 && ms < 30_000 ? process.env.PATIENCE * ms : ms
globalThis.setTimeout = (f, ms, ...args) => setTimeout(f, longer(ms), ...args)

// With SLOW_CLOCK, its clock is as much slower: it polls tasks until its clock says that ten seconds have passed.
if (process.env.SLOW_CLOCK) {
  const now = Date.now, begun = now()
  Date.now = () => begun + (now() - begun) / process.env.PATIENCE
}
