// The suite waits half a second for many answers, which a busy machine does not always give. It waits PATIENCE times as
// long here.
const setTimeout = globalThis.setTimeout
globalThis.setTimeout = (f, ms, ...args) => setTimeout(f, ms >= 100 ? process.env.PATIENCE * ms : ms, ...args)
