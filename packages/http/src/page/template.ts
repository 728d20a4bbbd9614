import { markName, type ScannedHole, type ScannedTemplate, scan } from './template-scanner.ts';

/** A place where values stand; the browser finds it by its part. */
export type Hole = ScannedHole & { readonly part: number };

/**
 * The fixed text of a template, found once. The browser part of a live page finds the holes by
 * marks: comments around text, an attribute on elements with other holes.
 *
 *     html`<p class="${a}" id="${b}">Hi ${c}</p>`
 *
 *     plain   <p |            |>Hi |</p>
 *     live    <p  data-live|  |>Hi <!--[-->|<!--]--></p>
 *     holes   class           id    text
 *     part    0               0     1
 */
export interface Template {
  /** Text before, between and after the holes. */
  readonly plain: readonly string[];
  /** The same with the marks. */
  readonly live: readonly string[];
  readonly holes: readonly Hole[];
}

/** Comments around a text hole of a live page, and before each item of a list. */
export const marks = { open: '<!--[-->', item: '<!--,-->', close: '<!--]-->' } as const;

const cache = new WeakMap<readonly string[], Template>();

/** The template of these strings, refused unless each value stands in a safe place. */
export function templateOf(strings: TemplateStringsArray): Template {
  const known = cache.get(strings);
  if (known !== undefined) return known;
  const template = withMarks(scan(strings));
  cache.set(strings, template);
  return template;
}

/** Numbers the parts and adds the marks: everything that comparing needs. */
function withMarks({ plain, holes }: ScannedTemplate): Template {
  const live: string[] = [];
  const found: Hole[] = [];
  let parts = 0;
  let marked: number | undefined;
  let after = '';
  for (const [index, hole] of holes.entries()) {
    const text = after + plain[index];
    after = '';
    if (hole.kind === 'text') {
      live.push(text + marks.open);
      after = marks.close;
      found.push({ ...hole, part: parts++ });
      continue;
    }
    // All holes of one element are one part, marked at the first of them.
    const mark = hole.element === marked ? '' : ` ${markName}`;
    if (mark !== '') parts += 1;
    marked = hole.element;
    // The mark of an element with content stands before the end of its start tag.
    const isContent = hole.kind === 'content';
    live.push(isContent ? text.replace(/>\n?$/, (end) => mark + end) : text + mark);
    found.push({ ...hole, part: parts - 1 });
  }
  live.push(after + plain[holes.length]);
  return { plain, live, holes: found };
}
