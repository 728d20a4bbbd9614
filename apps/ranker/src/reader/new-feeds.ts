import { httpError } from 'spillway-http';
import { foldersOf, folderText, formatOpml, type OpmlList } from '../feeds/opml.ts';
import { webUrl } from '../fetching/canonical-url.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { Credentials } from '../fetching/web.ts';
import type { NewFeed, ReaderFeed } from '../storage/feeds.ts';

const nameLengthMax = 200;

export interface FeedSearch {
  /** Of the feed, or of a page that names it. */
  readonly address: string;
  readonly credentials?: Credentials | undefined;
  readonly signal: AbortSignal;
}

/** The feed at an address. It is fetched before it is stored, so that only feeds are stored. */
export async function findFeed(
  fetcher: Pick<Fetcher, 'fetchFeed'>,
  { address, credentials, signal }: FeedSearch,
): Promise<NewFeed> {
  const url = webUrl(address.trim());
  if (url === undefined) {
    const rule = 'the address of a feed begins with https:// and has no password inside';
    throw httpError('INPUT_INVALID', `url: ${rule}`);
  }
  url.hash = '';
  const answer = await fetcher.fetchFeed(url.href, { credentials, signal });
  if (answer.kind === 'unchanged') return { url: url.href, title: '', folder: '', credentials };
  const { feed } = answer;
  const title = feed.title.slice(0, nameLengthMax);
  const isOwn = new URL(feed.url).origin === url.origin;
  // A feed that is elsewhere was opened without the credentials.
  return { url: feed.url, title, folder: '', credentials: isOwn ? credentials : undefined };
}

/** The feeds of a list as they are kept. */
export function listedFeeds({ feeds }: OpmlList): NewFeed[] {
  return feeds.map(({ url, title, siteUrl, folders, outline }) => {
    const isNamed = title !== url;
    const folder = folderText(folders);
    return { url, title: isNamed ? title : '', isNamed, siteUrl, folder, outline };
  });
}

/** A user's feeds as a list for other readers; credentials are no part of it. */
export function opmlOf(name: string, feeds: readonly ReaderFeed[]): string {
  const listed = feeds.map(({ url, title, siteUrl, folder, outline }) => {
    return { url, title: title || url, siteUrl, folders: foldersOf(folder, outline), outline };
  });
  return formatOpml(name, listed);
}

/** Header names that a request is made of; credentials are never one of them. */
const ownHeaders = new RegExp(
  '^(host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|keep-alive|proxy-.*|' +
    'accept.*|user-agent|if-.*|range)$',
  'i',
);
const secretLengthMax = 2_000;

/** The fields of a form that ask for credentials; all empty for none. */
export interface CredentialFields {
  readonly name?: string | undefined;
  readonly password?: string | undefined;
  /** As in `X-Token: abc`. */
  readonly header?: string | undefined;
}

/** The credentials that a form gives; throws `INPUT_INVALID`, and never repeats what was given. */
export function credentialsOf(fields: CredentialFields): Credentials | undefined {
  const { name = '', password = '', header = '' } = fields;
  if (header.trim() !== '') {
    const [, field = '', value = ''] = /^([\w!#$%&'*+.^`|~-]{1,100}):[ \t]*([!-~][ -~]*)$/.exec(
      header.trim(),
    ) ?? ['', '', ''];
    const isUsable = field !== '' && !ownHeaders.test(field) && value.length <= secretLengthMax;
    if (!isUsable) {
      throw httpError('INPUT_INVALID', 'header: a name, a colon and a value, as in X-Token: abc');
    }
    return { header: field, value: value.trim() };
  }
  if (name === '' && password === '') return undefined;
  const isUsable = !name.includes(':') && `${name}${password}`.length <= secretLengthMax;
  if (!isUsable) throw httpError('INPUT_INVALID', 'name: a name for a feed has no colon');
  const value = `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
  return { header: 'authorization', value };
}
