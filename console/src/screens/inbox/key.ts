/** keyOf is a text that no other approval has. */
export const keyOf = (a: { tenant: string; id: string }) => `${a.tenant}/${a.id}`;
