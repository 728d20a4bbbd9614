import { SpillwayError } from 'spillway';
import { webUrl } from '../fetching/canonical-url.ts';
import { attribute, child, children, escapeXml, parseXml, type XmlValue } from './xml.ts';

/** One feed of a subscription list. */
export interface OpmlFeed {
  /** Absolute, http or https. */
  readonly url: string;
  readonly title: string;
  readonly siteUrl: string | undefined;
  /** The folders it is in, outermost first. */
  readonly folders: readonly string[];
}

const charsMax = 2 * 1_048_576;
const feedsMax = 5_000;
const titleCharsMax = 500;

/** The feeds of a subscription list, each once; throws `OPML_BROKEN` (400). */
export function parseOpml(text: string): OpmlFeed[] {
  if (text.length > charsMax) throw opmlBroken(`more than ${charsMax} characters`);
  const document = parseXml(text);
  if ('broken' in document && typeof document.broken === 'string') {
    throw opmlBroken(document.broken);
  }
  const body = child(child(document, 'opml'), 'body');
  if (body === undefined) throw opmlBroken('it has no <opml> with a <body>');
  const feeds = new Map<string, OpmlFeed>();
  collect(body, [], feeds);
  return [...feeds.values()];
}

/** The error for a list that cannot be read. */
export function opmlBroken(why: string): SpillwayError {
  const fault = { code: 'OPML_BROKEN', status: 400, retryable: false };
  return new SpillwayError(fault, `not a list of feeds: ${why}`);
}

// Elements cannot nest deeper than the parser lets them.
function collect(parent: XmlValue, folders: readonly string[], feeds: Map<string, OpmlFeed>): void {
  for (const outline of children(parent, 'outline')) {
    const label = attribute(outline, 'title') || attribute(outline, 'text') || '';
    const title = label.slice(0, titleCharsMax);
    const address = attribute(outline, 'xmlUrl') ?? attribute(outline, 'xmlurl');
    const url =
      address &&
      webUrl(address.replace(/^feed:(\/\/)?(?=https?:)/, '').replace(/^feed:/, 'http:'))?.href;
    if (url && !feeds.has(url)) {
      if (feeds.size >= feedsMax) throw opmlBroken(`more than ${feedsMax} feeds`);
      const siteUrl = webUrl(attribute(outline, 'htmlUrl') ?? '')?.href;
      feeds.set(url, { url, title: title || url, siteUrl, folders });
    }
    if (address === undefined) collect(outline, title ? [...folders, title] : folders, feeds);
  }
}

interface Folder {
  readonly feeds: OpmlFeed[];
  readonly folders: Map<string, Folder>;
}

/** A subscription list that any reader takes, with the folders as they were. */
export function formatOpml(title: string, feeds: Iterable<OpmlFeed>): string {
  const root: Folder = { feeds: [], folders: new Map() };
  for (const feed of feeds) folderOf(root, feed.folders).feeds.push(feed);
  const head = `  <head><title>${escapeXml(title)}</title></head>`;
  const body = ['  <body>', ...outlines(root, '    '), '  </body>'];
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<opml version="2.0">',
    head,
    ...body,
    '</opml>',
    '',
  ].join('\n');
}

function folderOf(root: Folder, names: readonly string[]): Folder {
  let at = root;
  for (const name of names) {
    const next = at.folders.get(name) ?? { feeds: [], folders: new Map() };
    at.folders.set(name, next);
    at = next;
  }
  return at;
}

function outlines(folder: Folder, indent: string): string[] {
  const own = folder.feeds.map(({ title, url, siteUrl }) => {
    const name = escapeXml(title);
    const site = siteUrl === undefined ? '' : ` htmlUrl="${escapeXml(siteUrl)}"`;
    const address = `xmlUrl="${escapeXml(url)}"${site}`;
    return `${indent}<outline type="rss" text="${name}" title="${name}" ${address}/>`;
  });
  const inner = [...folder.folders].flatMap(([name, below]) => [
    `${indent}<outline text="${escapeXml(name)}">`,
    ...outlines(below, `${indent}  `),
    `${indent}</outline>`,
  ]);
  return [...own, ...inner];
}
