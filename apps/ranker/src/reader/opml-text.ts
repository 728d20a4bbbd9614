import type { ReaderFeed } from './reader-store.ts';

/** Subscriptions as OPML 2.0, as other readers take them. */
export function opmlText(feeds: readonly ReaderFeed[]): string {
  const folders = Map.groupBy(feeds, ({ folder }) => folder);
  const lines = [...folders].flatMap(([folder, own]) => {
    if (folder === '') return own.map(outline);
    return [`<outline text=${quoted(folder)}>`, ...own.map(outline), '</outline>'];
  });
  return `<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0"><head><title>Feeds</title></head><body>
${lines.join('\n')}
</body></opml>
`;
}

function outline({ title, url, siteUrl }: ReaderFeed): string {
  const site = siteUrl === undefined ? '' : ` htmlUrl=${quoted(siteUrl)}`;
  return `<outline type="rss" text=${quoted(title || url)} xmlUrl=${quoted(url)}${site}/>`;
}

const references: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};

/** As an attribute's value; XML has no way to say control characters. */
function quoted(text: string): string {
  const said = text.toWellFormed().replace(/[\p{Cc}\ufffe\uffff]/gu, ' ');
  return `"${said.replace(/[&<>"]/g, (character) => references[character] as string)}"`;
}
