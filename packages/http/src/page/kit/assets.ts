import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

interface KitFile {
  readonly url: string;
  readonly type: string;
  readonly etag: string;
  readonly text: string;
}

/** Reads a file of the kit; its address changes with its content, so clients may keep it. */
function kitFile(name: string, type: string): KitFile {
  const text = readFileSync(new URL(`../browser/${name}`, import.meta.url), 'utf8');
  const digest = hash('sha256', text, 'hex').slice(0, 12);
  const [base, extension] = name.split('.');
  return { url: `/_kit/${base}.${digest}.${extension}`, type, etag: `"${digest}"`, text };
}

const style = kitFile('kit.css', 'text/css; charset=utf-8');
const script = kitFile('kit.js', 'text/javascript; charset=utf-8');
const icon = kitFile('icon.svg', 'image/svg+xml');

/** Addresses of the kit's files. */
export const kitUrls: {
  readonly style: string;
  readonly script: string;
  readonly icon: string;
} = { style: style.url, script: script.url, icon: icon.url };

const yearSeconds = 31_536_000;

/** Serves style, script and icon of the kit. It must be registered at the root. */
export const kitAssets: FastifyPluginAsync = fastifyPlugin(
  async (app: FastifyInstance) => {
    for (const { url, type, etag, text } of [style, script, icon]) {
      const headers = { etag, 'cache-control': `public, max-age=${yearSeconds}, immutable` };
      app.get(url, (request, reply) => {
        void reply.headers(headers);
        if (request.headers['if-none-match'] === etag) return reply.code(304).send();
        return reply.type(type).send(text);
      });
    }
  },
  { name: 'spillway-kit', fastify: '5.x' },
);
