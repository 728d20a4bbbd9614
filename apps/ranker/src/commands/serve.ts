import { deadline, wallClock } from 'spillway';
import {
  demandListenable,
  listenFault,
  makeDatabaseFolder,
  makeFolder,
  ServiceStop,
} from 'spillway-cli';
import { openRanker, type RankerService } from '../open-ranker.ts';
import { operatorOptions, type Settings } from '../settings.ts';

const firstUser = 'reader';
/** The longest wait of the first start until the samples can be scored. */
const samplesMs = 20_000;

/** Serves until it is stopped; gives the exit code. */
export async function serve(settings: Settings): Promise<number> {
  // Listens for signals from the first moment: a server may be stopped before it is ready.
  const stopping = new ServiceStop();
  const { host, port, compat, compatPort } = settings;
  // Wrong settings are refused before anything is created.
  operatorOptions(settings);
  const ports = { '--port': port, ...(compat && { '--compat-port': compatPort }) };
  const address = { host, ports };
  await demandListenable(address);
  await makeFolder(settings.data);
  await makeDatabaseFolder(settings.database);
  const shutdown = () => process.kill(process.pid, 'SIGTERM');
  const ranker = await openRanker({ settings, shutdown });
  await ranker.service.start().catch((error: unknown) => {
    throw listenFault(error, address);
  });
  // Only after the start: if the port were taken, nobody would ever see the key.
  const key = await firstKey(ranker);
  if (key !== undefined) {
    // Samples without a score would puzzle a newcomer; a slow machine shows scores later.
    using limit = deadline(wallClock, samplesMs);
    const until = AbortSignal.any([limit.signal, stopping.signal]);
    await ranker.embedding.idle(until).catch(() => {});
  }
  greet(ranker, settings, key);
  process.send?.({ ready: true });
  return await stopping.stop(ranker.service);
}

/** Creates a user with samples to read at the very first start, and gives the key. */
async function firstKey({ storage, reader }: RankerService): Promise<string | undefined> {
  if ((await storage.users.list()).length > 0) return undefined;
  const { user, key } = await storage.users.add(firstUser);
  await reader.addSamples(user.id);
  return key;
}

/** Prints the address of the server and, at the very first start, the key. */
function greet(ranker: RankerService, settings: Settings, key: string | undefined): void {
  const { server, compat } = ranker;
  const say = (text: string) => process.stdout.write(`${text}\n`);
  if (compat !== undefined) say(`It answers as news-score does at ${compat.url}`);
  if (key !== undefined) {
    // For `npm start`, whose console shows it too.
    process.send?.({ login: { user: firstUser, secret: key } });
    say(`
This is its first start. The key of the first user, "${firstUser}", shown only now:
  ${key}

What to do next, in another terminal:
  export RANKER_URL=${server.url} RANKER_KEY=${key}
  npx ranker articles                      ten samples, and what they are worth to you
  npx ranker train sample:queues 9         say what you think of one
  npx ranker articles                      see the order change
Or read in a browser, with the key: ${server.url}/reader
`);
  }
  // The line that says "ready" is the last one: a program that waits for it has read the others.
  say(`Ranker is ready at ${server.url}, with its data in ${settings.data}`);
}
