import { type BigIntStats, constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, sep } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyPluginAsync } from 'fastify';
import { instance, integer, or, settle, word } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';
import type { Download } from './download.ts';
import type { Piece } from './pieces.ts';

/** Opening must not block on a file that was replaced by a pipe. */
const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Four times Node's default: a large file takes a third less time (2026-11). */
const highWaterMark = 262_144;

/**
 * The real path of the file that a client named, if it lies inside the folder. `NOT_FOUND` for
 * paths that lead out of it, also by links, for hidden names and for missing files.
 */
export async function pathInside(root: string, name: string): Promise<string> {
  const parts = name.split('/');
  const isPlain = parts.every((part) => part !== '' && !part.startsWith('.'));
  if (!isPlain || /[\0\\]/.test(name)) throw missing(name);
  try {
    const folder = await realpath(root);
    const path = await realpath(join(folder, ...parts));
    if (isInside(folder, path)) return path;
  } catch (cause) {
    throw missing(name, cause);
  }
  throw missing(name);
}

function isInside(folder: string, path: string): boolean {
  const between = relative(folder, path);
  return between !== '' && between.split(sep).every((part) => part !== '' && !part.startsWith('.'));
}

/** A file for `download`: `{ ...(await fileDownload(root, name)), type }`. */
export async function fileDownload(root: string, name: string): Promise<Download> {
  const path = await pathInside(root, name);
  const stats = await stat(path, { bigint: true });
  if (!stats.isFile()) throw missing(name);
  const version = versionOf(stats);
  const piece: Piece = {
    size: Number(stats.size),
    open: (start, end) => openFile(path, version, start, end),
  };
  return { body: [piece], version, modifiedAt: Number(stats.mtimeMs) };
}

async function openFile(path: string, version: string, start: number, end: number) {
  const handle = await open(path, flags);
  try {
    const stats = await handle.stat({ bigint: true });
    if (versionOf(stats) !== version) throw missing(path);
    return handle.createReadStream({ start, end: end - 1, highWaterMark });
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Version by inode, size and two times: a file that is replaced or written gets another. */
function versionOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [ino, size, mtimeNs, ctimeNs].map((part) => part.toString(36)).join('-');
}

function missing(name: string, cause?: unknown): Error {
  return httpError('NOT_FOUND', `there is no file ${JSON.stringify(name)}`, { cause });
}

export interface AssetsOptions {
  /** Folder with the files; an absolute path. */
  readonly root: string;
  /** Path under which the files are served. @default '/assets/' */
  readonly prefix?: string | undefined;
  /** Seconds that a client may keep a file without asking. An integer from 0. @default 86_400 */
  readonly maxAgeSeconds?: number | undefined;
}

/** A name with a hash of its content, as bundlers write it: `app.3f2a9c1b.js`. */
const hashed = /[.-](?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\.[\w.]+$/;
const yearSeconds = 31_536_000;

const rules = {
  root: instance((value) => isAbsolute(String(value)), 'an absolute path'),
  prefix: or(word, '/assets/' as string),
  maxAgeSeconds: or(integer(0, yearSeconds), 86_400),
};

/**
 * Serves the files of a folder with ETags and ranges, but no hidden files and no links that lead
 * out of it. Clients keep files with a hash in their name for good.
 */
export const assets: FastifyPluginAsync<AssetsOptions> = plugin('assets', async (app, options) => {
  const { root, prefix, maxAgeSeconds } = settle('assets', options, rules);
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
});
