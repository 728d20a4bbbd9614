/** The parameters of an address, each as one text. */
export type QueryTexts = Readonly<Record<string, string | undefined>>;

/** Of a parameter that is there many times, the last one counts. */
export function queryTexts(query: unknown): QueryTexts {
  const entries = Object.entries(Object(query) as Record<string, string | string[]>);
  return Object.fromEntries(entries.map(([name, value]) => [name, [value].flat().at(-1)]));
}
