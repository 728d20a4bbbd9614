import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openBrowser } from 'spillway-fixtures/browser';
import { askOperator, operatorSocket } from 'spillway-http';

const root = join(import.meta.dirname, '..', '..', '..');

const commands: Readonly<Record<string, readonly string[]>> = {
  fleet: ['serve', '--github', 'false'],
  ingest: ['follow', '--simulated'],
  ranker: ['serve'],
  console: ['serve'],
};

function start(words: readonly string[], stack: AsyncDisposableStack): ChildProcess {
  const child = spawn(process.execPath, words, {
    cwd: root,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  stack.defer(() => end(child, 'SIGKILL'));
  return child;
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

/** Starts a program of the repository, and waits until it says that it is ready. */
async function serve(app: string, data: string, stack: AsyncDisposableStack) {
  const folder = app === 'console' ? data : join(data, app);
  const file = join(root, 'apps', app, 'bin', `${app}.js`);
  const words = [file, ...(commands[app] ?? []), '--data', folder, '--port', '0'];
  const child = start(words, stack);
  // The first start of the ranker says so only when it has read its samples.
  for (; app !== 'ranker'; ) {
    const [sent] = await once(child, 'message');
    if (Object(sent).ready === true) break;
  }
  return child;
}

interface Told {
  readonly url: string;
  readonly routes: readonly { readonly path: string; readonly answers: Record<string, number> }[];
}

async function ask(folder: string, path: string, method = 'GET'): Promise<Told> {
  const { text } = await askOperator({ socket: operatorSocket(folder), path, method });
  return JSON.parse(text);
}

/** Waits until a route has answered. */
async function answered(folder: string, path: string): Promise<void> {
  for (;;) {
    const { routes } = await ask(folder, '/-/stats');
    if (routes.some((route) => route.path === path && route.answers['200'])) return;
    await sleep(100);
  }
}

/** Asks more at once than the lane of log searches takes, until one is refused. */
async function overload(url: string): Promise<void> {
  const query = () =>
    fetch(`${url}/api/actions`, { method: 'POST', body: '{"message":{"$regex":"x"}}' });
  for (;;) {
    const answers = await Promise.all(Array.from({ length: 100 }, query));
    if (answers.some(({ status }) => status === 503)) return;
  }
}

describe('the console beside every service, under demo traffic', () => {
  it('shows an overload, a kill and a new start, and tells of them', async (t) => {
    await using stack = new AsyncDisposableStack();
    const parent = join(tmpdir(), 'spillway-every-');
    const data = stack.use(await mkdtempDisposable(parent)).path;
    const starting = Object.keys(commands).map(
      async (app) => [app, await serve(app, data, stack)] as const,
    );
    const browser = await openBrowser();
    stack.defer(() => browser.close());
    const running = new Map(await Promise.all(starting));
    const page = await browser.newPage();
    page.setDefaultTimeout(60_000);
    const opened = await ask(join(data, 'console'), '/-/open', 'POST');
    await page.goto(opened.url);
    const { origin } = new URL(page.url());
    await page.goto(`${origin}/?service=fleet`);
    const tile = (name: string) => page.locator(`.service[href$="=${name}"]`);
    for (const name of ['fleet', 'ingest', 'ranker']) await tile(name).waitFor();
    const demo = start([join(root, 'scripts', 'demo.ts'), '--data', data], stack);
    stack.defer(() => end(demo, 'SIGTERM'));
    await answered(join(data, 'fleet'), '/api/update_task');

    const shown = async (what: string, isShown: Promise<void>) => {
      const startedAt = performance.now();
      await isShown;
      t.diagnostic(`${what}: ${Math.round(performance.now() - startedAt)} ms`);
    };
    const silence = tile('ingest').getByText('does not run');
    await overload((await ask(join(data, 'fleet'), '/-/stats')).url);
    const refusing = page.getByRole('row', { name: /log_search/ }).getByText(/full/);
    await shown('overload', refusing.waitFor());
    await end(running.get('ingest') as ChildProcess, 'SIGKILL');
    await shown('kill', silence.waitFor());
    await serve('ingest', data, stack);
    await shown('new start', silence.waitFor({ state: 'detached' }));
    await page.getByRole('navigation', { name: 'Places' }).getByText('Events').click();
    await page.getByRole('heading', { level: 1, name: 'Events' }).waitFor();
    const refusal = 'lane log_search refused its first';
    await page.locator('.timeline').getByText(refusal).first().waitFor();
    await page.locator('.timeline').getByText('does not run').first().waitFor();
  });
});
