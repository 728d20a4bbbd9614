import type { Clock } from 'spillway';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { DocumentEmbedder } from '../ranking/library.ts';
import type { RankingParts } from '../ranking/ranking-parts.ts';
import type { FeedRefresh } from '../reader/feed-refresh.ts';
import type { ListCache } from '../reader/list-cache.ts';
import type { Settings } from '../settings.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { RankerLanes } from './ranker-lanes.ts';

/** Everything that routes use. */
export interface RankerContext extends RankingParts {
  readonly storage: RankerStorage;
  readonly embedder: DocumentEmbedder;
  readonly fetcher: Pick<Fetcher, 'fetchFeed' | 'parseOpml'>;
  readonly refresh: Pick<FeedRefresh, 'look'>;
  readonly lists: ListCache;
  readonly lanes: RankerLanes;
  readonly clock: Clock;
  readonly settings: Settings;
}
