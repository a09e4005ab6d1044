/** own is a record's value of a name that somebody outside chose, such as __proto__. */
export const own = <T>(of: Record<string, T>, name: string | undefined): T | undefined =>
  name !== undefined && Object.hasOwn(of, name) ? of[name] : undefined;
