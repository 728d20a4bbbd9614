import { httpError } from 'spillway-http';
import { unavailableError } from '../errors.ts';
import type { OpmlFeed } from '../feeds/opml.ts';
import { webUrl } from '../fetching/canonical-url.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { NewFeed } from '../storage/feeds.ts';

/** The number of feeds that one list may bring, and the longest name. */
const feedsMax = 1_000;
const nameLengthMax = 200;

/** The feed at an address. Asked for before it is kept, so that nothing is kept that is no feed. */
export async function findFeed(
  fetcher: Pick<Fetcher, 'fetchFeed'>,
  address: string,
  signal: AbortSignal,
): Promise<NewFeed> {
  const url = webUrl(address.trim())?.href;
  if (url === undefined) {
    throw httpError('INPUT_INVALID', 'url: the address of a feed begins with https://');
  }
  const answer = await fetcher.fetchFeed(url, { signal });
  if (answer.kind === 'unavailable') throw unavailableError(answer);
  if (answer.kind === 'unchanged') return { url, title: '', folder: '' };
  const { feed } = answer;
  return { url: feed.url, title: feed.title.slice(0, nameLengthMax), folder: '' };
}

/** The feeds of a list as they are kept. */
export function listedFeeds(found: readonly OpmlFeed[]): NewFeed[] {
  if (found.length > feedsMax) {
    throw httpError('INPUT_INVALID', `a list may have ${feedsMax} feeds, not ${found.length}`);
  }
  return found.map(({ url, title, folders }) => {
    const folder = folders.join(' / ').slice(0, nameLengthMax);
    return { url, title: title.slice(0, nameLengthMax), folder };
  });
}
