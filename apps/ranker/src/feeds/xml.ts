import { decodeHTMLStrict } from 'entities/decode';
import { XMLParser, XMLValidator } from 'fast-xml-parser';

/** An element: attributes begin with `@`, its own text is `#text`; many of a name are an array. */
export interface XmlNode {
  readonly [name: string]: XmlValue;
}

export type XmlValue = string | XmlNode | readonly (string | XmlNode)[] | undefined;

/** Elements that may hold markup, with or without quoting it: their inside is kept as it is. */
const texts = [
  ...['title', 'subtitle', 'description', 'summary', 'content', 'content:encoded', 'tagline'],
  ...['link', 'guid', 'id', 'dc:title', 'dc:description'],
];

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  // What a document declares for itself is never expanded, so nothing can grow.
  processEntities: false,
  parseTagValue: false,
  parseAttributeValue: false,
  stopNodes: texts.map((name) => `..${name}`),
});

/** The attributes of one element: each costs the parser more than the one before. */
const attributesMax = 100;
// Only the first of many blanks is a beginning: to begin at each would take the square of them.
const manyAttributes = new RegExp(
  `(?<!\\s)(?:\\s+[\\w:.-]+\\s*=\\s*(?:"[^"<]*"|'[^'<]*')){${attributesMax + 1}}`,
);

/** The document, or in words what is wrong with it. */
export function parseXml(text: string): XmlNode | { readonly broken: string } {
  const xml = text.trimStart();
  if (manyAttributes.test(xml)) return { broken: `more than ${attributesMax} attributes` };
  // The one mistake that nobody minds: an ampersand that stands for itself.
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

/** The content of an element, as it is written. */
export function inside(value: XmlValue): string {
  const text = typeof value === 'string' ? value : element(value)?.['#text'];
  return typeof text === 'string' ? text : '';
}

/** The text that an element stands for: entities and CDATA sections resolved, once. */
export function textOf(value: XmlValue): string {
  const parts = inside(value).split(/<!\[CDATA\[(.*?)\]\]>/s);
  return parts
    .map((part, at) => (at % 2 === 1 ? part : decodeHTMLStrict(part)))
    .join('')
    .trim();
}

/** The picture of an entry by the elements of Media RSS, or as an enclosure. */
export function imageOf(entry: XmlValue): string | undefined {
  const group = child(entry, 'media:group') ?? entry;
  const media = [...children(entry, 'enclosure'), ...children(group, 'media:content')];
  const isImage = (one: XmlValue) =>
    attribute(one, 'medium') === 'image' || attribute(one, 'type')?.startsWith('image/');
  return attribute(media.find(isImage) ?? child(group, 'media:thumbnail'), 'url');
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
