import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { httpError } from '../../base/errors.ts';
import { browserFile } from '../browser-file.ts';

interface KitFile {
  /** Name with a hash of the content, so that clients may keep the file for good. */
  readonly name: string;
  /** Name without the hash. */
  readonly plainName: string;
  readonly type: string;
  readonly etag: string;
  readonly text: string;
}

const folder = '/_kit/';

function kitFile(plainName: string, type: string): KitFile {
  const text = browserFile(plainName);
  const digest = hash('sha256', text, 'hex').slice(0, 12);
  const name = plainName.replace('.', `.${digest}.`);
  return { name, plainName, type, etag: `"${digest}"`, text };
}

const style = kitFile('kit.css', 'text/css; charset=utf-8');
const script = kitFile('kit.js', 'text/javascript; charset=utf-8');
const icon = kitFile('icon.svg', 'image/svg+xml');
const files: readonly KitFile[] = [style, script, icon];

/** Addresses of the kit's files. */
export const kitUrls: {
  readonly style: string;
  readonly script: string;
  readonly icon: string;
} = { style: folder + style.name, script: folder + script.name, icon: folder + icon.name };

/** Text of the kit's style, for a page that is kept as a file. */
export const kitStyle: string = style.text;

const yearSeconds = 31_536_000;
const kept = `public, max-age=${yearSeconds}, immutable`;

/**
 * Serves style, script and icon of the kit. It must be registered at the root. A page that another
 * version of the service made asks for another hash: it gets the file there is, not to be kept.
 */
export const kitAssets: FastifyPluginAsync = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.get(`${folder}:name`, (request, reply) => {
      const { name } = request.params as { readonly name: string };
      const plain = name.replace(/\.[0-9a-f]{12}\./, '.');
      const file = files.find(({ plainName }) => plainName === plain);
      if (file === undefined) throw httpError('NOT_FOUND', 'the kit has no such file');
      const { etag, type, text } = file;
      void reply.headers({ etag, 'cache-control': file.name === name ? kept : 'no-cache' });
      if (request.headers['if-none-match'] === etag) return reply.code(304).send();
      return reply.type(type).send(text);
    });
  },
  { name: 'spillway-kit', fastify: '5.x' },
);
