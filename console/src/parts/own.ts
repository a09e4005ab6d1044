/** own returns a record's own value of an untrusted name, such as __proto__. */
export const own = <T>(of: Record<string, T>, name: string | undefined): T | undefined =>
  name !== undefined && Object.hasOwn(of, name) ? of[name] : undefined;
