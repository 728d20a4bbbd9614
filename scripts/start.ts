import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { StopSignal } from 'spillway/internal';

/** One program of the repository that serves. */
interface ServiceFile {
  readonly name: string;
  /** From the root of the repository; a service whose file is not there yet is left out. */
  readonly file: string;
  readonly words: (data: string) => readonly string[];
}

const root = dirname(import.meta.dirname);
const services: readonly ServiceFile[] = [
  {
    name: 'fleet',
    file: 'apps/fleet/bin/fleet.js',
    words: (data) => [
      ...['serve', '--data', join(data, 'fleet'), '--host', '127.0.0.1'],
      ...portWords(options.fleetPort),
    ],
  },
  {
    name: 'ingest',
    file: 'apps/ingest/bin/ingest.js',
    // Nobody asked for real trades yet, so nothing is asked of a real exchange.
    words: (data) => [
      ...['follow', '--simulated', '--data', join(data, 'ingest-simulated')],
      ...['--host', '127.0.0.1', ...portWords(options.ingestPort)],
    ],
  },
  {
    name: 'ranker',
    file: 'apps/ranker/bin/ranker.js',
    words: (data) => [
      ...['serve', '--data', join(data, 'ranker'), '--host', '127.0.0.1'],
      ...portWords(options.rankerPort),
    ],
  },
  {
    name: 'console',
    file: 'apps/console/bin/console.js',
    words: (data) => [
      ...['serve', '--data', data, '--host', '127.0.0.1'],
      ...portWords(options.consolePort),
    ],
  },
];

const usage = `Starts all services on this machine, each with its data below one folder.
  npm start
  npm start -- --data <folder>        where all data are kept (default ./data)
  npm start -- --fleet-port <number>  0 takes a free one (default 6543)
  npm start -- --ingest-port <number> (default 7070); it follows a simulated exchange
  npm start -- --ranker-port <number> (default 19090)
  npm start -- --console-port <number> (default 8500); one page of all services
Ctrl-C stops them when they are done with what they have begun; a second one at once.
`;

/** A service has its own limit, which is shorter. */
const stopMsMax = 15_000;

const options = readOptions();

interface StartOptions {
  readonly data: string;
  readonly fleetPort: string | undefined;
  readonly ingestPort: string | undefined;
  readonly rankerPort: string | undefined;
  readonly consolePort: string | undefined;
}

function readOptions(): StartOptions {
  try {
    const { values } = parseArgs({
      options: {
        data: { type: 'string', default: 'data' },
        'fleet-port': { type: 'string' },
        'ingest-port': { type: 'string' },
        'ranker-port': { type: 'string' },
        'console-port': { type: 'string' },
        help: { type: 'boolean' },
      },
    });
    if (values.help) {
      process.stdout.write(usage);
      process.exit(0);
    }
    const [fleetPort, ingestPort] = [values['fleet-port'], values['ingest-port']];
    const [rankerPort, consolePort] = [values['ranker-port'], values['console-port']];
    return { data: resolve(values.data), fleetPort, ingestPort, rankerPort, consolePort };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}`);
    process.exit(2);
  }
}

function portWords(port: string | undefined): readonly string[] {
  return port === undefined ? [] : ['--port', port];
}

/** A service that runs. A group of its own keeps the terminal's Ctrl-C from it: we pass it on. */
class Running {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly ended: Promise<string | undefined>;
  isRunning = true;

  constructor({ name, file, words }: ServiceFile, data: string) {
    this.name = name;
    const script = join(root, file);
    this.#child = spawn(process.execPath, [script, ...words(data)], {
      cwd: root,
      detached: true,
      // The channel tells the service of our end, however we end.
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
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
}

const found = services.filter(({ file }) => existsSync(join(root, file)));
const all = found.map((service) => new Running(service, options.data));
const names = () => all.filter(({ isRunning }) => isRunning).map(({ name }) => name);
const stop = new StopSignal({
  left: () => {
    const left = `Not stopped: ${names().join(', ')}`;
    endAll();
    return left;
  },
});
let isStopping = false;

function stopAll(): void {
  if (isStopping) return;
  isStopping = true;
  for (const service of all) service.end('SIGTERM');
  setTimeout(() => {
    process.stderr.write(`Not stopped in time, ended by force: ${names().join(', ')}\n`);
    endAll();
    process.exit(1);
  }, stopMsMax).unref();
}

function endAll(): void {
  for (const service of all) if (service.isRunning) service.end('SIGKILL');
}

stop.signal.addEventListener('abort', stopAll);
const outcomes = await Promise.all(
  all.map(async ({ name, ended }) => {
    const how = await ended;
    // One that ended by itself takes the others with it, so that nobody thinks all is well.
    if (!isStopping) {
      process.stderr.write(`${name} has ended by itself (${how ?? 'exit code 0'}).\n`);
      stopAll();
      return `${name} (${how ?? 'by itself'})`;
    }
    return how === undefined ? undefined : `${name} (${how})`;
  }),
);
const failed = outcomes.filter((how) => how !== undefined);
if (failed.length > 0) process.stderr.write(`Not stopped as it should be: ${failed.join(', ')}\n`);
else process.stderr.write(`All services have stopped; their data are in ${options.data}\n`);
process.exit(failed.length > 0 ? 1 : 0);
