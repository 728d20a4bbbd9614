import type { AtomFeed, JsonFeed, MediaNs, RdfFeed, RssFeed } from 'feedsmith';

/** Text of a feed: plain, or markup. */
export interface FeedText {
  readonly text?: string | undefined;
  readonly html?: string | undefined;
}

/** An entry as its format has it, nothing resolved or cleaned yet. */
export interface RawItem {
  readonly id: string | undefined;
  readonly url: string | undefined;
  readonly title: FeedText;
  readonly content: FeedText;
  readonly author: string | undefined;
  readonly published: string | undefined;
  /** The address of a picture that is not in its content. */
  readonly image: string | undefined;
  readonly tags: readonly string[];
}

/** A feed as its format has it. */
export interface RawFeed {
  readonly title: FeedText;
  readonly siteUrl: string | undefined;
  /** The base of relative addresses, if the feed names one. */
  readonly base: string | undefined;
  readonly items: readonly RawItem[];
}

type RssItem = RssFeed.Item<string> & Pick<RdfFeed.Item<string>, 'rdf'>;

/** RSS 2.0 and its elders, and 1.0. */
export function fromRss(feed: RssFeed.Feed<string> | RdfFeed.Feed<string>): RawFeed {
  const siteUrl = feed.link ?? alternate(feed.atom?.links);
  const items: readonly RssItem[] = feed.items ?? [];
  return {
    title: { html: feed.title ?? feed.dc?.titles?.[0] },
    siteUrl,
    // Relative links are relative to the site, on whatever machine the feed itself is.
    base: feed.xml?.base ?? siteUrl,
    items: items.map(rssItem),
  };
}

function rssItem(item: RssItem): RawItem {
  const { guid, dc, media } = item;
  const id = guid?.value ?? item.rdf?.about;
  // A guid that looks like an address is one, unless it says otherwise.
  const isLink = guid?.isPermaLink !== false && /^https?:\/\//.test(id ?? '');
  return {
    id,
    url: item.link ?? alternate(item.atom?.links) ?? (isLink ? id : undefined),
    title: { html: item.title ?? dc?.titles?.[0] ?? media?.title?.value },
    content: { html: item.content?.encoded ?? item.description ?? dc?.descriptions?.[0] },
    author: dc?.creators?.[0] ?? item.authors?.[0]?.name ?? item.itunes?.author,
    published: item.pubDate ?? dc?.dates?.[0] ?? item.dcterms?.created?.[0],
    image: imageOf(media, item.enclosures),
    tags: [...(item.categories ?? []).map(({ name }) => name ?? ''), ...(dc?.subjects ?? [])],
  };
}

/** Atom 1.0 and 0.3. */
export function fromAtom(feed: AtomFeed.Feed<string>): RawFeed {
  return {
    title: atomText(feed.title),
    siteUrl: alternate(feed.links),
    base: feed.xml?.base,
    items: (feed.entries ?? []).map((entry) => ({
      id: entry.id,
      url: alternate(entry.links),
      title: atomText(entry.title),
      content: atomText(entry.content?.value ? entry.content : entry.summary),
      author: entry.authors?.[0]?.name ?? feed.authors?.[0]?.name,
      published: entry.published ?? entry.updated,
      image: imageOf(entry.media),
      tags: (entry.categories ?? []).map(({ label, term = '' }) => label || term),
    })),
  };
}

function atomText(text: { readonly value?: string; readonly type?: string } = {}): FeedText {
  const { value = '', type = 'text' } = text;
  return /html|xml$/.test(type) ? { html: value } : { text: value };
}

/** JSON Feed 1.0 and 1.1. */
export function fromJson(feed: JsonFeed.Feed<string>): RawFeed {
  return {
    title: { text: feed.title },
    siteUrl: feed.home_page_url,
    base: undefined,
    items: (feed.items ?? []).map((item) => ({
      id: item.id,
      url: item.url ?? item.external_url,
      title: { text: item.title ?? '' },
      content: item.content_html
        ? { html: item.content_html }
        : { text: item.content_text ?? item.summary ?? '' },
      author: item.authors?.[0]?.name ?? feed.authors?.[0]?.name,
      published: item.date_published ?? item.date_modified,
      image: item.image ?? item.banner_image,
      tags: item.tags ?? [],
    })),
  };
}

interface Link {
  readonly href?: string;
  readonly rel?: string;
  readonly type?: string;
}

/** The address of the page among links; links of other kinds lead elsewhere. */
function alternate(links: readonly Link[] = []): string | undefined {
  const own = links.filter(({ rel = '' }) => /^(|alternate)$/.test(rel));
  return (own.find(({ type = '' }) => /^(|text\/html.*)$/.test(type)) ?? own[0])?.href;
}

interface Medium {
  readonly url?: string;
  readonly type?: string;
  readonly medium?: string;
}

/** The picture of an entry by the elements of Media RSS, or as an enclosure. */
function imageOf(media: MediaNs.ItemOrFeed = {}, enclosures: readonly Medium[] = []) {
  const group = media.groups?.[0] ?? media;
  const all: readonly Medium[] = [...enclosures, ...(group.contents ?? [])];
  const image = all.find(({ type, medium }) => medium === 'image' || type?.startsWith('image/'));
  return image?.url ?? group.thumbnails?.[0]?.url;
}
