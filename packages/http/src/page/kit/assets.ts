import type { FastifyPluginAsync } from 'fastify';
import { httpError } from '../../base/errors.ts';
import { plugin } from '../../base/plugin.ts';
import { type BrowserFile, browserFile, sendFile } from '../browser-file.ts';

const style = browserFile('kit.css');
const script = browserFile('kit.js');
const icon = browserFile('icon.svg');
const files = new Map([style, script, icon].map((file) => [file.name, file]));

/** The address of a file, with the hash of its content: clients may keep the file for good. */
function urlOf({ name, digest }: BrowserFile): string {
  return `/_kit/${name.replace('.', `.${digest.slice(0, 12)}.`)}`;
}

/** Addresses of the kit's files. */
export const kitUrls: {
  readonly style: string;
  readonly script: string;
  readonly icon: string;
} = { style: urlOf(style), script: urlOf(script), icon: urlOf(icon) };

/** Text of the kit's style, for a page that is kept as a file. */
export const kitStyle: string = style.text;

/**
 * Serves style, script and icon of the kit. It must be registered at the root. A page of another
 * version of the service asks for another hash: it gets the present file, with no leave to cache.
 */
export const kitAssets: FastifyPluginAsync = plugin('kit', async (app) => {
  app.get<{ Params: { name: string } }>('/_kit/:name', ({ params: { name } }, reply) => {
    const file = files.get(name.replace(/\.[0-9a-f]{12}\./, '.'));
    if (file === undefined) throw httpError('NOT_FOUND', 'the kit has no such file');
    const isNewest = urlOf(file).endsWith(`/${name}`);
    return sendFile(reply, file, isNewest ? 'public, max-age=31536000, immutable' : 'no-cache');
  });
});
