import { decodeHTMLStrict } from 'entities/decode';
import { XMLParser, XMLValidator } from 'fast-xml-parser';

/** An element: attributes begin with `@`, its own text is `#text`; many of a name are an array. */
export interface XmlNode {
  readonly [name: string]: XmlValue;
}

export type XmlValue = string | XmlNode | readonly (string | XmlNode)[] | undefined;

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  // What a document declares for itself is never expanded, so nothing can grow.
  processEntities: false,
  parseTagValue: false,
  parseAttributeValue: false,
});

/** The attributes of one element: each costs a parser more than the one before. */
const attributesMax = 100;
/** The words about a document that {@link hasManyAttributes}. */
export const tooManyAttributes: string = `more than ${attributesMax} attributes`;
// Only the first of many blanks may begin a match: a match from each takes quadratic time.
const manyAttributes = new RegExp(
  `(?<!\\s)(?:\\s+[\\w:.-]+\\s*=\\s*(?:"[^"<]*"|'[^'<]*')){${attributesMax + 1}}`,
);

/** True if an element has more attributes than a parser can read in reasonable time. */
export function hasManyAttributes(xml: string): boolean {
  return manyAttributes.test(xml);
}

/** The document, or in words what is wrong with it. */
export function parseXml(text: string): XmlNode | { readonly broken: string } {
  const xml = text.trimStart();
  if (hasManyAttributes(xml)) return { broken: tooManyAttributes };
  // Every reader accepts this mistake: an ampersand that stands for itself.
  const verdict = XMLValidator.validate(xml.replace(/&(?![\w#]{1,10};)/g, '&amp;'));
  if (verdict !== true) return { broken: `line ${verdict.err.line}: ${verdict.err.msg}` };
  try {
    return parser.parse(xml);
  } catch (error) {
    return { broken: (error as Error).message };
  }
}

/** All elements of that name. */
export function children(parent: XmlValue, name: string): readonly (string | XmlNode)[] {
  const value = element(parent)?.[name];
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value as string | XmlNode];
}

/** The first element of that name. */
export function child(parent: XmlValue, name: string): string | XmlNode | undefined {
  return children(parent, name)[0];
}

function element(value: XmlValue): XmlNode | undefined {
  return typeof value === 'object' && !Array.isArray(value) ? (value as XmlNode) : undefined;
}

export function attribute(value: XmlValue, name: string): string | undefined {
  const found = element(value)?.[`@${name}`];
  return typeof found === 'string' ? decodeHTMLStrict(found).trim() : undefined;
}

/** All attributes of an element, by their names. */
export function attributesOf(value: XmlValue): Record<string, string> {
  const names = Object.keys(element(value) ?? {}).filter((name) => /^@[\w:.-]+$/.test(name));
  return Object.fromEntries(
    names.map((name) => [name.slice(1), attribute(value, name.slice(1)) ?? '']),
  );
}

/** Text for an attribute or an element. */
export function escapeXml(text: string): string {
  const marks: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
  };
  const plain = text
    .toWellFormed()
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\uFFFE\uFFFF]/gu, '');
  return plain.replace(/[&<>"]/g, (mark) => marks[mark] ?? mark);
}
