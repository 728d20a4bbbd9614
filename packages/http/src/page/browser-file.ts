import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import type { FastifyReply } from 'fastify';

/** A file for browsers that this package brings along. */
export interface BrowserFile {
  readonly name: string;
  /** Hash of the content, in hexadecimal. */
  readonly digest: string;
  readonly text: string;
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Reads a file for browsers: beside this file, and beside the bundle when published. */
export function browserFile(name: string): BrowserFile {
  const text = readFileSync(new URL(`./browser/${name}`, import.meta.url), 'utf8');
  return { name, digest: hash('sha256', text, 'hex').slice(0, 16), text };
}

/** Sends the file, or nothing to a browser that has it. */
export function sendFile(
  reply: FastifyReply,
  { name, digest, text }: BrowserFile,
  cacheControl: string,
): FastifyReply {
  const etag = `"${digest}"`;
  reply.headers({ etag, 'cache-control': cacheControl });
  if (reply.request.headers['if-none-match'] === etag) return reply.code(304).send();
  return reply.type(types[extname(name)] as string).send(text);
}
