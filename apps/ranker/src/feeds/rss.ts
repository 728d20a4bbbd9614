import type { FeedText, RawFeed, RawItem } from './parse-feed.ts';
import { attribute, child, children, imageOf, textOf, type XmlNode, type XmlValue } from './xml.ts';

/** RSS 2.0 and its elders, where entries are in the channel, and 1.0, where they are beside it. */
export function readRss(root: string | XmlNode): RawFeed {
  const channel = child(root, 'channel');
  const items = [...children(channel, 'item'), ...children(root, 'item')];
  return {
    title: textIn(channel, 'title', 'dc:title'),
    siteUrl: linkOf(channel),
    // Who writes relative links means the site, whatever machine the feed itself is on.
    base: attribute(root, 'xml:base') ?? attribute(channel, 'xml:base') ?? linkOf(channel),
    language: first(channel, 'language', 'dc:language'),
    items: items.map(readItem),
  };
}

function readItem(item: string | XmlNode): RawItem {
  const guid = child(item, 'guid');
  const id = textOf(guid) || attribute(item, 'rdf:about');
  // A guid that looks like an address is one, unless it says otherwise.
  const isLink = attribute(guid, 'isPermaLink') !== 'false' && /^https?:\/\//.test(id ?? '');
  return {
    id,
    url: first(item, 'feedburner:origLink') ?? linkOf(item) ?? (isLink ? id : undefined),
    title: textIn(item, 'title', 'dc:title', 'media:title'),
    content: textIn(item, 'content:encoded', 'description', 'summary', 'dc:description'),
    author: first(item, 'dc:creator', 'author', 'itunes:author'),
    published: first(item, 'pubDate', 'dc:date', 'pubdate', 'published', 'dcterms:created'),
    image: imageOf(item),
    tags: [...children(item, 'category'), ...children(item, 'dc:subject')].map(textOf),
  };
}

/** Some write the link of RSS, some that of Atom, some both and leave one empty. */
function linkOf(parent: XmlValue): string | undefined {
  const own = children(parent, 'link').map(textOf).find(Boolean);
  const links = [...children(parent, 'atom:link'), ...children(parent, 'link')];
  const other = links.find((link) => /^$|alternate/.test(attribute(link, 'rel') ?? ''));
  return own ?? attribute(other, 'href');
}

function first(parent: XmlValue, ...names: readonly string[]): string | undefined {
  return names.map((name) => textOf(child(parent, name))).find(Boolean);
}

function textIn(parent: XmlValue, ...names: readonly string[]): FeedText {
  return { html: first(parent, ...names) };
}
