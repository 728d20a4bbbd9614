import type { ReaderFeed } from '../reader/reader-store.ts';

/** A subscription list that other readers take. */
export function opmlOf(feeds: readonly ReaderFeed[]): string {
  const folders = Map.groupBy(feeds, ({ folder }) => folder);
  const lines = [...folders].flatMap(([folder, inside]) => {
    const outlines = inside.map(outline);
    if (folder === '') return outlines;
    return [`<outline text="${escaped(folder)}">`, ...outlines, '</outline>'];
  });
  const head = ['<?xml version="1.0" encoding="UTF-8"?>', '<opml version="2.0">'];
  const title = '<head><title>Feeds</title></head>';
  return [...head, title, '<body>', ...lines, '</body>', '</opml>', ''].join('\n');
}

function outline({ url, title, siteUrl }: ReaderFeed): string {
  const site = siteUrl === undefined ? '' : ` htmlUrl="${escaped(siteUrl)}"`;
  return `<outline type="rss" text="${escaped(title || url)}" xmlUrl="${escaped(url)}"${site}/>`;
}

/** What XML forbids altogether is left out. */
function escaped(text: string): string {
  const entities: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };
  return text
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
    .replaceAll(/[&<>"]/g, (character) => `&${entities[character]};`);
}
