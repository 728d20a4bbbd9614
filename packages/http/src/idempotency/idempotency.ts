import { createHash, hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import {
  type Clock,
  type Json,
  MemoryStore,
  type Random,
  type Store,
  type StoreChange,
} from 'spillway';
import {
  callback,
  checkInteger,
  clockRule,
  flag,
  integer,
  maybe,
  number,
  oneOf,
  or,
  settle,
  storeRule,
} from 'spillway/internal';
import { clientKey } from '../base/address-key.ts';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';
import { matching } from '../base/rules.ts';
import { routeOf, type UserOf } from '../rate/key.ts';
import type { RequestPermit } from '../request/request-permit.ts';
import { isStream } from '../request/unread-body.ts';
import { type Answer, type Claim, IdempotencyLedger, type KeyState } from './ledger.ts';
import { type BodyPrint, isSame, overhear, recorded } from './streams.ts';

interface IdempotencyClaim {
  readonly claim: Claim;
  isHandled: boolean;
  /** Gives the print of its body, if that was a stream and has been read. */
  readonly asked: () => BodyPrint | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True: each change needs a key. False: keys are ignored. @default the plugin's `required` */
    readonly idempotency?: boolean | undefined;
  }
  interface FastifyRequest {
    /** The exclusive right to do the work of the request's key, until it is answered. */
    idempotencyClaim: IdempotencyClaim | null;
    /**
     * Gives the changes that keep an answer under the key of this request; none without a key. A
     * handler that commits them with its own changes to the same store, or by `commitIn` with the
     * rows of its transaction, does its work once, whatever crashes. It must answer the same then.
     */
    keepAnswer(answer: KeptAnswer): readonly StoreChange[];
  }
}

/** An answer that a handler keeps in its own transaction. */
export interface KeptAnswer {
  /** From 200 to 499. @default 200 */
  readonly status?: number | undefined;
  /** Given as JSON. */
  readonly body: Json;
}

export interface IdempotencyOptions {
  /** True if changes without an `Idempotency-Key` are refused. @default false */
  readonly required?: boolean | undefined;
  /**
   * `answer` gives a repeated request the answer of the first. `refuse` takes each key once and
   * answers 409 to all others, whatever became of the first. @default 'answer'
   */
  readonly mode?: 'answer' | 'refuse' | undefined;
  /** Gives the proven owner of a key; each has keys of its own. @default the address */
  readonly user?: UserOf | undefined;
  /** Time that a key is kept, in milliseconds, from 100 to 31 days. @default 86_400_000 */
  readonly ageMs?: number | undefined;
  /**
   * Time that a request may run, in milliseconds, before its instance is taken for dead; longer
   * than any deadline. From 100 to a day. @default 60_000
   */
  readonly runMsMax?: number | undefined;
  /**
   * The meaning of a key whose request has not ended within `runMsMax`, since its instance died:
   * `again` lets the next one do the work, perhaps for the second time; `refuse` answers 409
   * (`IDEMPOTENCY_LOST`) until the key is forgotten. @default 'again'
   */
  readonly whenLost?: 'again' | 'refuse' | undefined;
  /** Longest answer that is kept, in bytes, from 0 to 16 MiB. @default 65_536 */
  readonly answerBytesMax?: number | undefined;
  /**
   * Store that all instances share; it bounds how many keys are kept. @default a MemoryStore of
   * 100,000 records and 64 Mi characters, which forgets the oldest; in mode `refuse` it does not
   */
  readonly store?: Store | undefined;
  /** Name that all instances which share keys have. 1 to 64 characters. @default 'http' */
  readonly name?: string | undefined;
  /** Time that a call of the store may take, in milliseconds, from 10. @default 1_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** Statuses that may change once the client logs in or tries later: never kept. */
const passing = new Set([401, 403, 408, 425, 429]);
const changing = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);
const dayMs = 86_400_000;
/** Headers that belong to one answer, connection or client, and are not kept. */
const notKept =
  /^(connection|content-length|date|keep-alive|ratelimit-.*|set-cookie|transfer-.*|x-request-id)$/;

const rules = {
  required: or(flag, false),
  mode: or(oneOf<'answer' | 'refuse'>('answer', 'refuse'), 'answer'),
  user: maybe(callback),
  ageMs: or(number(100, 31 * dayMs), dayMs),
  runMsMax: or(number(100, dayMs), 60_000),
  whenLost: or(oneOf<'again' | 'refuse'>('again', 'refuse'), 'again'),
  answerBytesMax: or(integer(0, 2 ** 24), 65_536),
  store: maybe(storeRule),
  name: or(matching(/^[\x20-\x7e]{1,64}$/, '1 to 64 characters of ASCII'), 'http' as string),
  deadlineMs: maybe(number(10, Number.MAX_SAFE_INTEGER)),
  clock: maybe(clockRule),
  random: maybe(callback),
};

/**
 * Runs a request with an `Idempotency-Key` once, however often it is sent. The answer of a handler
 * is kept and given again, except cookies. A 5xx, a 401, 403 or 429 is not kept, nor is anything
 * that was refused before the handler: then the key is free again.
 */
export const idempotency: FastifyPluginAsync<IdempotencyOptions> = plugin(
  'idempotency',
  async (app, options) => {
    const settings = settle('idempotency', options, rules);
    const { required, mode, user, answerBytesMax, clock } = settings;
    const whenFull = mode === 'refuse' ? 'refuse' : 'forget';
    const bounds = { recordsMax: 100_000, charactersMax: 2 ** 26, whenFull } as const;
    const ledger = new IdempotencyLedger({
      ...settings,
      store: settings.store ?? new MemoryStore({ ...bounds, clock }),
      // In `refuse` mode a key never becomes free.
      runMsMax: mode === 'refuse' ? settings.ageMs : settings.runMsMax,
    });
    app.decorateRequest('idempotencyClaim', null);
    app.decorateRequest('keepAnswer', function (this: FastifyRequest, answer: KeptAnswer) {
      const { claim } = this.idempotencyClaim ?? {};
      return claim === undefined ? [] : ledger.changes(claim, jsonAnswer(answer));
    });

    app.addHook('preValidation', async (request, reply) => {
      const { idempotency: setting } = request.routeOptions.config;
      if (!changing.has(request.method) || setting === false || request.is404) return;
      const key = request.headers['idempotency-key'];
      if (key === undefined && !(setting ?? required)) return;
      const found = await ledger.claim(scope(request, readKey(key), user), fingerprint(request));
      const source = streamOf(request);
      if (found.kind !== 'first') {
        const asked = found.kind === 'done' && mode === 'answer' ? found.answer.asked : undefined;
        const isOther =
          asked !== undefined && source !== undefined && !(await isSame(source, asked));
        return giveAgain(reply, isOther ? { kind: 'other' } : found, mode);
      }
      if (mode === 'refuse') return;
      const asked = source === undefined ? () => undefined : overhear(source);
      request.idempotencyClaim = { claim: found.claim, isHandled: false, asked };
    });

    app.addHook('preHandler', async ({ idempotencyClaim }) => {
      if (idempotencyClaim !== null) idempotencyClaim.isHandled = true;
    });

    app.addHook('onSend', async (request, reply, payload) => {
      if (request.idempotencyClaim === null) return payload;
      const { claim, isHandled, asked } = request.idempotencyClaim;
      request.idempotencyClaim = null;
      const { statusCode: status } = reply;
      // The answer is given even if it cannot be kept: the client must learn what was done.
      const tell = (error: unknown) => request.log.warn(error, 'an idempotency key was not kept');
      const isPassing = passing.has(status) || reply.hasHeader('retry-after');
      if (!isHandled || status >= 500 || isPassing) {
        const end = async (isDone: boolean): Promise<void> => {
          const done = { status: 200, headers: {} };
          await (isDone ? ledger.finish(claim, done) : ledger.release(claim)).catch(tell);
        };
        // Its deadline is over, but its handler may still do the work. No permit without admission.
        const permit: RequestPermit | undefined = request.permit;
        const isLate = permit?.whenLate((isDone) => void end(isDone)) ?? false;
        if (!isLate) await end(false);
        return payload;
      }
      const headers = keptHeaders(reply);
      const keep = (body: Buffer | undefined): Promise<void> => {
        const isKept = body !== undefined && body.length <= answerBytesMax;
        const kept = isKept ? { headers, body: body.toString('base64') } : { headers: {} };
        return ledger.finish(claim, { status, ...kept, asked: asked() }).catch(tell);
      };
      if (isStream(payload)) return recorded(payload, answerBytesMax, keep);
      await keep(wholeBody(payload));
      return payload;
    });
  },
);

function jsonAnswer({ status = 200, body }: KeptAnswer): Answer {
  checkInteger('status', status, 200, 499);
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return { status, headers, body: Buffer.from(JSON.stringify(body)).toString('base64') };
}

function keptHeaders(reply: FastifyReply): Answer['headers'] {
  const headers = Object.entries(reply.getHeaders()).filter(([name]) => !notKept.test(name));
  return Object.fromEntries(
    headers.map(([name, value]) => [name, Array.isArray(value) ? value : String(value)]),
  );
}

function wholeBody(payload: unknown): Buffer | undefined {
  if (payload === undefined || payload === null) return Buffer.alloc(0);
  if (typeof payload === 'string') return Buffer.from(payload);
  return Buffer.isBuffer(payload) ? payload : undefined;
}

function readKey(key: string | string[] | undefined): string {
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return key;
  const rule = 'an Idempotency-Key of 1 to 255 visible ASCII characters';
  throw httpError('IDEMPOTENCY_INVALID', `the request needs ${rule}`);
}

function scope(request: FastifyRequest, key: string, userOf: UserOf | undefined): string {
  const user = userOf?.(request);
  const who = user === undefined ? `@${clientKey(request)}` : `=${user}`;
  return hash('sha256', JSON.stringify([who, routeOf(request), key]), 'base64url');
}

function streamOf({ raw, headers, body }: FastifyRequest): Readable | undefined {
  if (isStream(body)) return body;
  return headers['content-type']?.startsWith('multipart/') ? raw : undefined;
}

/** Hash of method, address and body; of a body that is a stream only its length is known. */
function fingerprint(request: FastifyRequest): string {
  const { method, url, headers, body } = request;
  const all = createHash('sha256').update(JSON.stringify([method, url]));
  const isUnread = streamOf(request) !== undefined || body === undefined;
  if (isUnread) all.update(headers['content-length'] ?? '');
  else all.update(Buffer.isBuffer(body) ? body : JSON.stringify(body));
  return all.digest('base64url');
}

function giveAgain(
  reply: FastifyReply,
  found: Exclude<KeyState, { readonly kind: 'first' }>,
  mode: 'answer' | 'refuse',
): FastifyReply {
  if (mode === 'refuse') throw httpError('IDEMPOTENCY_REPEATED', 'its key was used before');
  if (found.kind === 'other') {
    throw httpError('IDEMPOTENCY_MISMATCH', 'its key was used for another request');
  }
  if (found.kind === 'running') {
    const message = 'the first request with this key has not ended';
    throw httpError('IDEMPOTENCY_RUNNING', message, { retryAfterMs: found.retryAfterMs });
  }
  if (found.kind === 'lost') {
    const message = 'the first request with this key ended without an answer, and may have worked';
    throw httpError('IDEMPOTENCY_LOST', message);
  }
  const { status, headers, body } = found.answer;
  if (body === undefined) {
    const message = `it was done, with status ${status}, but its answer could not be kept`;
    throw httpError('IDEMPOTENCY_DONE', message);
  }
  reply.code(status).headers(headers as Record<string, string>);
  return reply.header('idempotency-replayed', 'true').send(Buffer.from(body, 'base64'));
}
