import { realpath } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { fastifyPlugin } from 'fastify-plugin';
import { check, checkInteger } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { isInside } from './files.ts';

export interface AssetsOptions {
  /** The folder; an absolute path. */
  readonly root: string;
  /** Where its files are found. @default '/assets/' */
  readonly prefix?: string | undefined;
  /** Seconds that a client may keep a file without asking. An integer from 0. @default 86_400 */
  readonly maxAgeSeconds?: number | undefined;
}

/** A name with a hash of its content, as bundlers write it: `app.3f2a9c1b.js`. */
const hashed = /[.-](?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\.[\w.]+$/;
const yearSeconds = 31_536_000;

/**
 * Serves the files of a folder with ETags and ranges. Hidden files are not there, nor is anything
 * that a link shows from outside. Names with a hash in them are kept by clients for good.
 */
export const assets: FastifyPluginAsync<AssetsOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: AssetsOptions) => {
    const { root, prefix = '/assets/', maxAgeSeconds = 86_400 } = options;
    check(isAbsolute(root), 'root', 'an absolute path', root);
    checkInteger('maxAgeSeconds', maxAgeSeconds, 0, yearSeconds);
    const folder = await realpath(root);
    await app.register(fastifyStatic, {
      root: folder,
      prefix,
      dotfiles: 'ignore',
      index: false,
      decorateReply: false,
      cacheControl: false,
      onFile: async (path) => {
        if (!isInside(folder, await realpath(path))) throw httpError('NOT_FOUND', 'no such file');
      },
      setHeaders: (reply, path) => {
        const isHashed = hashed.test(path);
        const age = isHashed ? `${yearSeconds}, immutable` : maxAgeSeconds;
        reply.header('cache-control', `public, max-age=${age}`);
      },
    });
  },
  { name: 'spillway-assets', fastify: '5.x' },
);
