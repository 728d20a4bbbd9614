import type { FeedText, RawFeed, RawItem } from './parse-feed.ts';
import {
  attribute,
  child,
  children,
  imageOf,
  inside,
  textOf,
  type XmlNode,
  type XmlValue,
} from './xml.ts';

/** Atom 1.0, and 0.3 as far as it is the same. */
export function readAtom(feed: string | XmlNode): RawFeed {
  return {
    title: textIn(child(feed, 'title')),
    siteUrl: linkOf(feed),
    base: attribute(feed, 'xml:base'),
    language: attribute(feed, 'xml:lang'),
    items: children(feed, 'entry').map((entry) => readEntry(entry, authorOf(feed))),
  };
}

function readEntry(entry: string | XmlNode, feedAuthor: string | undefined): RawItem {
  const content = textIn(child(entry, 'content'));
  const hasContent = Boolean(content.text ?? content.html);
  const dates = ['published', 'issued', 'created', 'updated', 'modified'];
  return {
    id: textOf(child(entry, 'id')) || undefined,
    url: linkOf(entry),
    title: textIn(child(entry, 'title')),
    content: hasContent ? content : textIn(child(entry, 'summary')),
    author: authorOf(entry) ?? feedAuthor,
    published: dates.map((name) => textOf(child(entry, name))).find(Boolean),
    image: imageOf(entry),
    tags: children(entry, 'category').flatMap(
      (one) => attribute(one, 'label') || attribute(one, 'term') || [],
    ),
  };
}

function linkOf(parent: XmlValue): string | undefined {
  const links = children(parent, 'link').filter((link) => {
    return /^(|alternate)$/.test(attribute(link, 'rel') ?? '');
  });
  const isPage = (link: XmlValue) => /^(|text\/html.*)$/.test(attribute(link, 'type') ?? '');
  return attribute(links.find(isPage) ?? links[0], 'href');
}

function authorOf(parent: XmlValue): string | undefined {
  return textOf(child(child(parent, 'author'), 'name')) || undefined;
}

function textIn(value: string | XmlNode | undefined): FeedText {
  const type = attribute(value, 'type') ?? 'text';
  // Markup that is not quoted is what the element has inside.
  if (/xhtml|xml$/.test(type)) return { html: inside(value) };
  return /html/.test(type) ? { html: textOf(value) } : { text: textOf(value) };
}
