import { SpillwayError } from 'spillway';
import { webUrl } from '../fetching/canonical-url.ts';
import type { XmlValue } from './xml.ts';
import { attribute, attributesOf, child, children, escapeXml, parseXml } from './xml.ts';

/** One feed of a subscription list. */
export interface OpmlFeed {
  /** Absolute, http or https. */
  readonly url: string;
  /** The address if the list has no name for it. */
  readonly title: string;
  readonly siteUrl: string | undefined;
  /** The folders it is in, outermost first. */
  readonly folders: readonly string[];
  /** The outline that it was read from: an export writes other readers' attributes again. */
  readonly outline?: Outline | undefined;
}

type Attributes = Readonly<Record<string, string>>;

/** An outline of a feed as it was read. */
export interface Outline {
  /** All attributes but the address of the feed. */
  readonly attributes: Attributes;
  /** The attributes of the folders around it, outermost first. */
  readonly folders: readonly Attributes[];
  /** The namespaces that the document declares, by their attributes. */
  readonly spaces: Attributes;
}

export interface OpmlList {
  readonly feeds: readonly OpmlFeed[];
  /** The number of outlines that were left out: listed twice, or without an address of the web. */
  readonly leftOut: number;
}

const charsMax = 2 * 1_048_576;
/** Feeds that one list may have. */
const feedsMax = 1_000;
const titleCharsMax = 200;
/** The longest attributes of an outline that are kept, in characters. */
const outlineCharsMax = 8_192;

/** The feeds of a subscription list, each once; throws `OPML_BROKEN` (400). */
export function parseOpml(text: string): OpmlList {
  if (text.length > charsMax) throw opmlBroken(`more than ${charsMax} characters`);
  // Counted before the document is read, which takes a second for ten thousand.
  const listed = text.match(/\sxmlurl\s*=/gi)?.length ?? 0;
  if (listed > feedsMax) throw opmlError(`a list may have ${feedsMax} feeds, not ${listed}`);
  const document = parseXml(text);
  if ('broken' in document && typeof document.broken === 'string') {
    throw opmlBroken(document.broken);
  }
  const root = child(document, 'opml');
  const body = child(root, 'body');
  if (body === undefined) throw opmlBroken('it has no <opml> with a <body>');
  const declared = Object.entries(attributesOf(root)).filter(([name]) => /^xmlns:/.test(name));
  const found = new Collector(Object.fromEntries(declared));
  found.collect(body, []);
  return { feeds: [...found.feeds.values()], leftOut: found.leftOut };
}

/** The error for a list that cannot be taken. */
export function opmlError(message: string): SpillwayError {
  return new SpillwayError({ code: 'OPML_BROKEN', status: 400, retryable: false }, message);
}

function opmlBroken(why: string): SpillwayError {
  return opmlError(`not a list of feeds: ${why}`);
}

class Collector {
  readonly feeds = new Map<string, OpmlFeed>();
  leftOut = 0;
  readonly #spaces: Attributes;

  constructor(spaces: Attributes) {
    this.#spaces = spaces;
  }

  // Elements cannot nest deeper than the parser lets them.
  collect(parent: XmlValue, folders: readonly Attributes[]): void {
    for (const element of children(parent, 'outline')) {
      const { xmlUrl, xmlurl = xmlUrl, ...attributes } = attributesOf(element);
      if (xmlurl === undefined) {
        const isNamed = labelOf(attributes) !== '';
        this.collect(element, isNamed ? [...folders, attributes] : folders);
        continue;
      }
      const url = webUrl(xmlurl.replace(/^feed:(\/\/)?(?=https?:)/, '').replace(/^feed:/, 'http:'));
      if (url !== undefined) url.hash = '';
      if (url === undefined || this.feeds.has(url.href)) {
        this.leftOut += 1;
        continue;
      }
      const outline = { attributes, folders, spaces: this.#spaces };
      this.feeds.set(url.href, {
        url: url.href,
        title: labelOf(attributes) || url.href,
        siteUrl: webUrl(attribute(element, 'htmlUrl') ?? '')?.href,
        folders: folders.map(labelOf),
        ...(JSON.stringify(outline).length <= outlineCharsMax && { outline }),
      });
    }
  }
}

function labelOf({ title, text }: Attributes): string {
  return (title || text || '').slice(0, titleCharsMax);
}

/** The folder of a feed as it is kept and shown. */
export function folderText(folders: readonly string[]): string {
  return folders.join(' / ').slice(0, titleCharsMax);
}

/** The folders of a feed whose folder may have been changed since its outline was read. */
export function foldersOf(folder: string, outline: Outline | undefined): string[] {
  const read = outline?.folders.map(labelOf) ?? [];
  if (folderText(read) === folder) return read;
  return folder === '' ? [] : folder.split(' / ');
}

interface Folder {
  readonly attributes: Attributes;
  readonly feeds: OpmlFeed[];
  readonly folders: Map<string, Folder>;
}

/** A subscription list that any reader takes, with folders and outlines as they were. */
export function formatOpml(title: string, feeds: Iterable<OpmlFeed>): string {
  const root: Folder = { attributes: {}, feeds: [], folders: new Map() };
  let spaces: Attributes = {};
  for (const feed of feeds) {
    folderOf(root, feed).feeds.push(feed);
    spaces = { ...spaces, ...feed.outline?.spaces };
  }
  const head = `  <head><title>${escapeXml(title)}</title></head>`;
  const body = ['  <body>', ...outlines(root, '    '), '  </body>'];
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<opml${attributesText({ version: '2.0', ...spaces })}>`,
    head,
    ...body,
    '</opml>',
    '',
  ].join('\n');
}

function folderOf(root: Folder, { folders, outline }: OpmlFeed): Folder {
  let at = root;
  for (const [depth, name] of folders.entries()) {
    const read = outline?.folders[depth];
    const attributes = read !== undefined && labelOf(read) === name ? read : { text: name };
    const next = at.folders.get(name) ?? { attributes, feeds: [], folders: new Map() };
    at.folders.set(name, next);
    at = next;
  }
  return at;
}

function outlines(folder: Folder, indent: string): string[] {
  const own = folder.feeds.map((feed) => `${indent}<outline${attributesText(feedOutline(feed))}/>`);
  const inner = [...folder.folders.values()].flatMap((below) => [
    `${indent}<outline${attributesText(below.attributes)}>`,
    ...outlines(below, `${indent}  `),
    `${indent}</outline>`,
  ]);
  return [...own, ...inner];
}

function feedOutline({ url, title, siteUrl, outline }: OpmlFeed): Attributes {
  const { type = 'rss', ...read } = outline?.attributes ?? {};
  const isSame = title === labelOf(read) || (title === url && labelOf(read) === '');
  const names: Attributes = isSame && outline !== undefined ? {} : { text: title, title };
  const site: Attributes = siteUrl === undefined ? {} : { htmlUrl: siteUrl };
  return { type, ...names, ...site, ...read, ...names, xmlUrl: url };
}

function attributesText(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${escapeXml(value)}"`)
    .join('');
}
