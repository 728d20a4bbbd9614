import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { systemClock } from 'spillway';
import { onceAborted, pause } from 'spillway/internal';
import {
  demandListenable,
  examplesOf,
  listenFault,
  makeFolder,
  makeProgram,
  runProgram as run,
  StopSignal,
  UsageError,
} from 'spillway-cli';
import { askOperator, operatorSocket } from 'spillway-http';
import { adviseAll } from '../advice.ts';
import { EventLog } from '../events.ts';
import { Launcher } from '../launcher.ts';
import { findServices, openConsole, type Remote } from '../open.ts';
import { ServiceWatch } from '../service-watch.ts';

const help = `
The console watches every service that has its data in a folder below --data, by the socket that
the service keeps there for its operator. It needs no settings of theirs.
`;

interface ServeFlags {
  readonly data: string;
  readonly host: string;
  readonly port: number;
  readonly services?: string;
}

function serveCommand(): Command {
  return new Command('serve')
    .description('show all services on one live page')
    .option('--data <folder>', 'the folder with the data folders of the services', 'data')
    .option('--host <address>', 'the address to listen at', '127.0.0.1')
    .option('--port <number>', '0 takes a free one', port, 8500)
    .option('--services <file>', 'JSON of services elsewhere: {"shop": {"url": …, "token": …}}')
    .addHelpText('after', examplesOf('console', ['serve', 'serve --data /var/lib/spillway']))
    .action(async (flags: ServeFlags) => await serve(flags));
}

async function serve({ data, host, port: listenPort, services }: ServeFlags): Promise<void> {
  using stop = new StopSignal({ left: () => 'Ended at once.' });
  const folder = resolve(data);
  const call = { socket: operatorSocket(join(folder, 'console')), path: '/-/live' };
  const isAlone = await askOperator(call).then(
    () => false,
    () => true,
  );
  if (!isAlone) {
    const how = `for its address: npx console open --data '${folder}'`;
    throw new Error(`a console runs already with --data ${folder}; ${how}`);
  }
  const remotes = services === undefined ? undefined : await readRemotes(services);
  // A start that is refused leaves nothing behind.
  const address = { host, ports: { '--port': listenPort } };
  await demandListenable(address);
  await makeFolder(join(folder, 'console'));
  const launcher = new Launcher();
  const opening = openConsole({ data: folder, remotes, host, port: listenPort, launcher });
  await using opened = await opening.catch((error: unknown) => {
    throw listenFault(error, address);
  });
  process.stdout.write(`Console is ready. Open it once with:\n  ${opened.openUrl()}\n`);
  process.stdout.write(`For another browser: npx console open --data '${folder}'\n`);
  process.send?.({ ready: true });
  await onceAborted(stop.signal);
}

async function readRemotes(file: string): Promise<Record<string, Remote>> {
  try {
    const remotes = JSON.parse(await readFile(file, 'utf8'));
    for (const { url, token } of Object.values<Remote>(remotes)) {
      if (!URL.canParse(url) || typeof token !== 'string') throw new Error('url and token needed');
    }
    return remotes;
  } catch (error) {
    throw new UsageError(`--services ${file}: ${(error as Error).message}`);
  }
}

function openCommand(): Command {
  return new Command('open')
    .description('print a new address that opens the running console once')
    .option('--data <folder>', 'the folder that it was started with', 'data')
    .addHelpText('after', examplesOf('console', ['open']))
    .action(async ({ data }: { readonly data: string }) => {
      const socket = operatorSocket(join(resolve(data), 'console'));
      const call = { socket, path: '/-/open', method: 'POST' };
      const answer = await askOperator(call).catch(() => {
        throw new UsageError(`no console runs with --data ${data}; start one: npx console serve`);
      });
      process.stdout.write(`${JSON.parse(answer.text).url}\n`);
    });
}

/** Two looks this far apart tell what is refused now. */
const adviseMs = 5_000;

function adviseCommand(): Command {
  return new Command('advise')
    .description('look at services for some seconds, and say what needs a change')
    .argument('[address]', 'operator port of one service, like http://10.0.0.7:9000')
    .option('--data <folder>', 'the folder with the data folders of the services', 'data')
    .addHelpText(
      'after',
      examplesOf('console', ['advise --data /var/lib/spillway', 'advise http://10.0.0.7:9000']),
    )
    .addHelpText('after', '\nThe token of an address is taken from SPILLWAY_OPERATOR_TOKEN.')
    .action(async (url: string | undefined, { data }: { readonly data: string }) => {
      const watches = new Map<string, ServiceWatch>();
      const log = new EventLog();
      if (url === undefined) await findServices(resolve(data), { watches, log });
      else {
        if (!URL.canParse(url)) throw new UsageError(`${url} is no address like http://host:port`);
        const place = { url, token: process.env.SPILLWAY_OPERATOR_TOKEN };
        watches.set(url, new ServiceWatch({ name: url, place, log }));
      }
      if (watches.size === 0) throw new UsageError(`no service has its data below ${data}`);
      const { signal } = new AbortController();
      const look = () => Promise.all([...watches.values()].map((watch) => watch.look(signal)));
      await look();
      await pause(systemClock, adviseMs);
      await look();
      const advice = adviseAll([...watches.values()]);
      if (advice.length === 0) process.stdout.write('All calm: nothing to change.\n');
      for (const { title, text, chain } of advice) {
        process.stdout.write(`${title}\n  ${[text, ...chain].join('\n  ')}\n`);
      }
    });
}

function port(text: string): number {
  const found = Number(text);
  if (/^\d+$/.test(text) && found <= 65_535) return found;
  throw new InvalidArgumentError('must be an integer from 0 to 65535');
}

/** All commands. */
export function consoleProgram(): Command {
  const about = 'One live page of all services, and what is wrong with them.';
  const commands = [serveCommand(), openCommand(), adviseCommand()];
  return makeProgram({ name: 'console', about, help, commands });
}

/** Runs the command that the words make; gives the exit code. */
export function runProgram(words: readonly string[]): Promise<number> {
  return run(consoleProgram(), words);
}
