import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** A program that can be started, and the environment to start it in. */
export interface BrowserProgram {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A Chromium on this machine, which may have to be unpacked before it runs. */
export interface FoundBrowser {
  /** Unpacks the browser unless that is done, which takes some seconds; rejects on failure. */
  readonly prepare: () => Promise<BrowserProgram>;
}

/** Names of the program on the PATH, the lightest first. */
const names = [
  'chromium-headless-shell',
  'headless_shell',
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
];

/** With this `AWS_EXECUTION_ENV`, `@sparticuz/chromium` also unpacks its shared libraries. */
const runtime = 'AWS_Lambda_nodejs22.x';

/**
 * Finds a Chromium: the first on the PATH, else the one in the optional package
 * `@sparticuz/chromium`, which runs on Linux on x64 with nothing else installed.
 */
export function findBrowser(path: string = process.env.PATH ?? ''): FoundBrowser | undefined {
  const folders = path.split(delimiter).filter(Boolean);
  const places = names.flatMap((name) => folders.map((folder) => join(folder, name)));
  const place = places.find(isProgram);
  return place === undefined ? packagedBrowser() : browserAt(place);
}

/** A browser that is given by the path of its program. */
export function browserAt(path: string): FoundBrowser {
  return { prepare: async () => ({ path, env: environment() }) };
}

/** The browser that npm has installed; undefined if npm left it out or it cannot run here. */
export function packagedBrowser(): FoundBrowser | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined;
  try {
    // <modules>/@sparticuz/chromium/build/esm/index.js
    const entry = fileURLToPath(import.meta.resolve('@sparticuz/chromium'));
    const folder = join(dirname(entry), '..', '..');
    if (!existsSync(join(folder, 'package.json'))) return undefined;
    return { prepare: () => prepare(folder) };
  } catch {
    return undefined;
  }
}

async function prepare(folder: string): Promise<BrowserProgram> {
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const name = `chromium-${version}`;
  const caches = [
    join(folder, '..', '..', '.cache'),
    join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'spillway'),
  ];
  const places = caches.map((cache) => join(cache, name));
  const place = places.find(isUsable) ?? (await unpackInto(places));
  const env = environment();
  const libraries = [join(place, 'al2023', 'lib'), env.LD_LIBRARY_PATH];
  env.LD_LIBRARY_PATH = libraries.filter(Boolean).join(delimiter);
  env.FONTCONFIG_PATH = join(place, 'fonts');
  return { path: join(place, 'chromium'), env };
}

/** Unpacks the browser into the first of these folders that can be written to. */
async function unpackInto(places: readonly string[]): Promise<string> {
  let failure: unknown;
  for (const place of places) {
    try {
      await mkdir(dirname(place), { recursive: true });
      return await unpack(place);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** Unpacks beside the folder and renames, so that no process starts half of a browser. */
async function unpack(place: string): Promise<string> {
  const folder = await mkdtemp(`${place}-`);
  try {
    const env = { ...environment(), TMPDIR: folder, AWS_EXECUTION_ENV: runtime };
    const program = join(import.meta.dirname, 'unpack.ts');
    await promisify(execFile)(process.execPath, [program], { env });
    // The fonts.conf of the package names another folder than that of the fonts here.
    await writeFile(join(folder, 'fonts', 'fonts.conf'), fontsFile(join(place, 'fonts')));
    await chmod(join(folder, 'chromium'), 0o755);
    await chmod(folder, 0o755);
    await rename(folder, place);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    // Another process may have unpacked it first.
    if (!isUsable(place)) throw error;
  }
  return place;
}

/** Configuration of fontconfig: these fonts, those of the machine, and a cache for the user. */
function fontsFile(folder: string): string {
  const folders = [folder, '/usr/share/fonts', '/usr/local/share/fonts'];
  const lines = folders.map((each) => `  <dir>${each}</dir>`).join('\n');
  const cache = '  <cachedir prefix="xdg">fontconfig</cachedir>';
  return `<?xml version="1.0"?>\n<fontconfig>\n${lines}\n${cache}\n</fontconfig>\n`;
}

function isUsable(place: string): boolean {
  return isProgram(join(place, 'chromium'));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** This process's environment, without the variables that change how Node runs. */
function environment(): Record<string, string> {
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  return env as Record<string, string>;
}
