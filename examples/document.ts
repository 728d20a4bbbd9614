// Settings in one JSON file that several processes may change at once, and that no crash harms.
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Document, FileLock } from 'spillway';

interface Settings {
  theme: string;
  readonly feeds: string[];
}

await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-example-'));
await using settings = await Document.open<Settings>({
  path: join(folder.path, 'settings.json'),
  initial: { theme: 'light', feeds: [] },
});

const follow = (feed: string) =>
  settings.transaction((draft) => {
    if (draft.feeds.includes(feed)) throw new Error(`${feed} is there already`);
    draft.feeds.push(feed);
  });

// Waiting transactions are written together; only the one that throws is left out.
const results = await Promise.allSettled(['news', 'sport', 'news', 'art'].map(follow));
console.log(results.map(({ status }) => status));
console.log(await settings.read(), settings.stats);

// The same kind of lock can guard other things, between processes, too.
using lock = new FileLock({ path: join(folder.path, 'import.lock') });
using _held = await lock.acquire();
console.log('only one process of all is here', lock.stats);
