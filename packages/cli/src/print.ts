/** Control characters, which would steer a terminal, and marks that turn its writing around. */
const unprintable = /[^\P{Cc}\n\t]|\p{Bidi_Control}/gu;

/** Prints what a command gives: JSON for programs, or text for people. */
export function print(value: unknown, json: boolean | undefined, text: () => string): void {
  const shown = json ? JSON.stringify(value, null, 2) : text().replaceAll(unprintable, '\uFFFD');
  process.stdout.write(`${shown}\n`);
}

/** The look of a printed table. */
export interface TableStyle {
  /** Writes a value. @default {@link cell} */
  readonly cell?: ((value: unknown) => string) | undefined;
  /** True if columns of numbers are aligned to the right. @default false */
  readonly alignsNumbers?: boolean | undefined;
}

/** A table of rows that have the same keys, which are its titles. */
export function table(rows: readonly object[], none: string, style: TableStyle = {}): string {
  const [first] = rows;
  if (first === undefined) return none;
  const titles = Object.keys(first);
  const cells = rows.map((row) => Object.values(row).map(style.cell ?? cell));
  const isRight = titles.map((title) => style.alignsNumbers === true && isNumbers(rows, title));
  const widths = titles.map((title, at) =>
    Math.max(title.length, ...cells.map((line) => (line[at] ?? '').length)),
  );
  const line = (texts: readonly string[]) =>
    texts
      .map((each, at) =>
        isRight[at] ? each.padStart(widths[at] ?? 0) : each.padEnd(widths[at] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(titles), ...cells.map(line)].join('\n');
}

/** Writes a value for people: yes and no, and a dash for nothing. */
export function cell(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return String(value ?? '') || '-';
}

function isNumbers(rows: readonly object[], title: string): boolean {
  return rows.every((row) => typeof (row as Record<string, unknown>)[title] === 'number');
}
