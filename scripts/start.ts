import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { StopSignal } from 'spillway/internal';
import { askOperator, operatorSocket } from 'spillway-http';

/** A program of the repository that runs beside the others. */
interface Program {
  readonly name: string;
  /** From the root of the repository. */
  readonly file: string;
  readonly words: readonly string[];
  /** False if its output is dropped: others print what matters of it. @default true */
  readonly isPrinted?: boolean;
}

/** A program that serves. */
interface ServiceProgram extends Program {
  readonly data: string;
  readonly port: string;
}

const root = dirname(import.meta.dirname);
const host = '127.0.0.1';
const usage = `Starts all services on this machine, each with its data below one folder.
  npm start
  npm start -- --demo                 with demo traffic: simulated workers, harvest and reader
  npm start -- --data <folder>        where all data are kept (default ./data)
  npm start -- --fleet-port <number>  0 takes a free one (default 6543)
  npm start -- --ingest-port <number> (default 7070); it follows a simulated exchange
  npm start -- --ranker-port <number> (default 19090)
  npm start -- --console-port <number> (default 8500); one page of all services
Ctrl-C stops them once they have finished what they began; a second Ctrl-C stops them at once.
`;
/** Longer than the limit that each service sets itself. */
const stopMsMax = 15_000;

const options = readOptions();
const services: readonly ServiceProgram[] = [
  // A first look needs no internet: no books from GitHub, no real trades.
  service('fleet', ['serve', '--github', 'false']),
  service('ingest', ['follow', '--simulated'], 'ingest-simulated'),
  service('ranker', ['serve']),
  // Its link is printed when all services are ready.
  { ...service('console', ['serve'], '.'), isPrinted: false },
];

type Name = 'fleet' | 'ingest' | 'ranker' | 'console';

function readOptions() {
  try {
    const { values } = parseArgs({
      args: joinNegatives(process.argv.slice(2)),
      options: {
        data: { type: 'string', default: 'data' },
        demo: { type: 'boolean', default: false },
        'fleet-port': { type: 'string', default: '6543' },
        'ingest-port': { type: 'string', default: '7070' },
        'ranker-port': { type: 'string', default: '19090' },
        'console-port': { type: 'string', default: '8500' },
        help: { type: 'boolean' },
      },
    });
    if (values.help) {
      process.stdout.write(usage);
      process.exit(0);
    }
    if (values.data === '') throw new Error('--data: must name a folder');
    return { ...values, data: resolve(values.data) };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\nnpm start -- --help lists all options.\n`);
    process.exit(2);
  }
}

/** Turns `--x -5` into `--x=-5`: otherwise parseArgs takes the negative number for an option. */
function joinNegatives(words: readonly string[]): string[] {
  return words.flatMap((word, at) => {
    if (at > 0 && /^-\d/.test(word)) return [];
    const next = words[at + 1] ?? '';
    return [/^-\d/.test(next) ? `${word}=${next}` : word];
  });
}

function service(name: Name, command: readonly string[], folder: string = name): ServiceProgram {
  const data = join(options.data, folder);
  const port = options[`${name}-port`];
  const words = [...command, '--data', data, '--host', host, '--port', port];
  return { name, file: `apps/${name}/bin/${name}.js`, words, data, port };
}

/** The operator socket of a service. */
function socketOf({ name, data }: ServiceProgram): string {
  return operatorSocket(name === 'console' ? join(data, name) : data);
}

/** Exits with the reason if a service could not start, before anything is started or made. */
async function checkStart(): Promise<void> {
  const { data } = options;
  try {
    accessSync(existingFolder(data), constants.W_OK);
  } catch (error) {
    refuseFolder(error as NodeJS.ErrnoException);
  }
  for (const each of services) {
    const isRunning = await askOperator({ socket: socketOf(each), path: '/-/live' }).then(
      () => true,
      () => false,
    );
    if (!isRunning) continue;
    const how = `for its console: npx console open --data '${data}'`;
    refuse(`${each.name} runs already with its data in ${data}; ${how}`);
  }
  for (const { name, port } of services) {
    if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
      refuse(`--${name}-port: must be a number from 0 to 65535, got '${port}'`);
    }
    const probe = createServer();
    try {
      await once(probe.listen(Number(port), host), 'listening');
      probe.close();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const why = code === 'EADDRINUSE' ? 'is in use' : `cannot be listened on (${code})`;
      refuse(`${name}: ${host}:${port} ${why}; choose another with --${name}-port`);
    }
  }
  try {
    mkdirSync(data, { recursive: true, mode: 0o700 });
  } catch (error) {
    refuseFolder(error as NodeJS.ErrnoException);
  }
}

/** The folder, or the nearest one above it that exists. */
function existingFolder(folder: string): string {
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (stats === undefined) return existingFolder(dirname(folder));
  if (!stats.isDirectory()) throw Object.assign(new Error(folder), { code: 'ENOTDIR' });
  return folder;
}

function refuseFolder({ code }: NodeJS.ErrnoException): never {
  return refuse(`--data: ${options.data} cannot be written to (${code})`);
}

function refuse(why: string): never {
  process.stderr.write(`${why}\nNothing was started.\n`);
  process.exit(1);
}

/** A running program, in a process group of its own: Ctrl-C reaches only us, and we pass it on. */
class Running {
  readonly name: string;
  readonly #child: ChildProcess;
  /** A reason if it did not end well: a signal, an exit code or an error. */
  readonly ended: Promise<string | undefined>;
  isRunning = true;

  constructor(
    { name, file, words, isPrinted = true }: Program,
    onMessage?: (sent: object) => void,
  ) {
    this.name = name;
    this.#child = spawn(process.execPath, [join(root, file), ...words], {
      cwd: root,
      detached: true,
      // The channel closes when we end, however that happens; then the service stops, too.
      stdio: ['ignore', isPrinted ? 'inherit' : 'ignore', 'inherit', 'ipc'],
    });
    if (onMessage !== undefined) this.#child.on('message', onMessage);
    this.ended = new Promise((done) => {
      const end = (how: string | undefined) => {
        this.isRunning = false;
        done(how);
      };
      this.#child.once('error', (error) => end(error.message));
      this.#child.once('exit', (code, signal) => {
        end(code === 0 ? undefined : (signal ?? `exit code ${code}`));
      });
    });
  }

  end(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Sends a message, unless the program has ended. */
  tell(message: object): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }
}

await checkStart();
const all = services.map((each) => new Running(each, (sent) => hear(each.name, sent)));
const [, , , consoleProgram] = all as [Running, Running, Running, Running];
consoleProgram.tell({ demo: false });
let demo: Running | undefined;
/** True if the demo must start again when it has ended. */
let isDemoWanted = false;
let isStopping = false;
const ready = new Set<string>();
const names = () => [...all, demo].flatMap((each) => (each?.isRunning ? [each.name] : []));
const stop = new StopSignal({
  left: () => {
    const left = `Not stopped: ${names().join(', ')}`;
    endAll();
    return left;
  },
});
stop.signal.addEventListener('abort', stopAll);

/** A message from a service: it is ready, it has a first login, the demo is wanted. */
interface Message {
  readonly ready?: boolean;
  readonly login?: object;
  readonly demo?: boolean;
}

function hear(from: string, sent: Message): void {
  if (sent.ready === true) {
    ready.add(from);
    if (ready.size === services.length && !isStopping) void greet();
  }
  if (sent.login !== undefined) consoleProgram.tell({ login: { service: from, ...sent.login } });
  if (from !== 'console') return;
  if (sent.demo === true) startDemo();
  if (sent.demo !== false) return;
  isDemoWanted = false;
  demo?.end('SIGTERM');
}

/** Starts the demo, or starts it again when the last one has ended. */
function startDemo(): void {
  isDemoWanted = true;
  if (demo?.isRunning === true || isStopping) return;
  const words = ['--data', options.data];
  demo = new Running({ name: 'demo traffic', file: 'scripts/demo.ts', words });
  consoleProgram.tell({ demo: true });
  isDemoWanted = false;
  void demo.ended.then(() => {
    consoleProgram.tell({ demo: false });
    if (isDemoWanted) startDemo();
  });
}

function stopAll(): void {
  if (isStopping) return;
  isStopping = true;
  for (const each of [...all, demo]) each?.end('SIGTERM');
  setTimeout(() => {
    process.stderr.write(`Did not stop in time and was killed: ${names().join(', ')}\n`);
    endAll();
  }, stopMsMax).unref();
}

function endAll(): void {
  for (const each of [...all, demo]) if (each?.isRunning) each.end('SIGKILL');
}

/** Prints the one address to open when all services are ready. */
async function greet(): Promise<void> {
  const socket = socketOf(services[3] as ServiceProgram);
  const answer = await askOperator({ socket, path: '/-/open', method: 'POST' }).catch((error) => {
    if (!isStopping) throw error;
  });
  if (answer === undefined || isStopping) return;
  process.stdout.write(`
All services run. Open this first; the link works once:
  ${JSON.parse(answer.text).url}
For another browser: npx console open --data '${options.data}'
`);
  if (options.demo) startDemo();
}

/** The first service to end by itself: then the others are stopped, and this is the last line. */
let first: string | undefined;
const outcomes = await Promise.all(
  all.map(async ({ name, ended }) => {
    const how = await ended;
    if (!isStopping) {
      const isUp = ready.has(name);
      first = isUp
        ? `${name} has ended by itself (${how ?? 'exit code 0'})`
        : `${name} did not start`;
      stopAll();
      return undefined;
    }
    return how === undefined ? undefined : `${name} (${how})`;
  }),
);
await demo?.ended;
if (first !== undefined) {
  process.stderr.write(`${first}; its reason stands above. The others were stopped.\n`);
  process.exit(1);
}
const failed = outcomes.filter((how) => how !== undefined);
if (failed.length > 0) process.stderr.write(`Did not stop cleanly: ${failed.join(', ')}\n`);
else process.stderr.write(`All services have stopped; their data are in ${options.data}\n`);
process.exit(failed.length > 0 ? 1 : 0);
