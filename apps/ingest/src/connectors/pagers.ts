import { createHash } from 'node:crypto';
import type { HarvestAnswer } from 'spillway';
import { ingestError } from '../errors.ts';
import { dayOf } from '../files/raw-file.ts';
import { at, fieldChanged, microseconds, seconds } from './answer.ts';
import type { Answer, Found, Query } from './api.ts';
import type { Cursor, TradePosition } from './connector.ts';
import type { Declaration } from './declaration.ts';
import { type Item, pageOf, type TradePage } from './page.ts';

const dayUs = 86_400_000_000;

/** Records of a page, and the cursor of the next one. */
export type PageAnswer = HarvestAnswer<TradePage, TradePosition>;

/** Reads a list page by page, where only the answers tell its end. */
export interface Pager {
  /** Returns the parameters of the page at a cursor, or its path. */
  ask(since: string): Query | string;
  read(answer: Answer, cursor: Cursor, again: Again): PageAnswer | Promise<PageAnswer>;
  /** Returns the page before, if there is one: an API may refuse the page after its last. */
  before?(since: string): string | undefined;
}

/** Fetches another page within the same step. */
export type Again = (since: string) => Promise<Answer>;

/** Makes an item of a record and its number. */
export function numbered({ text, us }: Found, id: number): Item {
  return { id, us, line: `{"seq":${id},"us":${us},"record":${text}}` };
}

function hashOf({ text }: Found): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

interface NextPage {
  readonly since: string;
  readonly isEnd: boolean;
  /** Hashes of records that the next page may repeat. @default none */
  readonly known?: readonly string[] | undefined;
}

/** Drops records known from the page before, and makes the cursor of the next page. */
function answerOf(records: readonly Found[], cursor: Cursor, page: NextPage): PageAnswer {
  const known = new Set(cursor.known);
  const fresh = known.size === 0 ? records : records.filter((one) => !known.has(hashOf(one)));
  const items = fresh.map((one, place) => numbered(one, cursor.id + place));
  const rows = items.length === 0 ? [] : [pageOf(items)];
  const id = cursor.id + fresh.length;
  const next: Cursor = { ...cursor, id, since: page.since, known: page.known ?? [] };
  return { rows, next, isEnd: page.isEnd };
}

/** Makes the pager of a source. */
export function pagerOf(source: Declaration): Pager {
  const { pages } = source;
  if (pages.by === 'offset') return byOffset(pages);
  if (pages.by === 'page') return byPage(source.name, pages);
  if (pages.by === 'cursor') return byCursor(source.name, pages);
  if (pages.by === 'time') return byTime(source.name, pages.since, pages.field, pages.size);
  const { since, field } = pages as Extract<Declaration['pages'], { readonly by: 'link' }>;
  return since === undefined
    ? byLink(source.name)
    : byTime(source.name, since, field as string, undefined);
}

/** The declaration of one kind of paging. */
export type PagesBy<By> = Extract<Declaration['pages'], { readonly by: By }>;

/** Paging by offset, for lists that grow at their end. */
function byOffset({ offset, limit, size }: PagesBy<'offset'>): Pager {
  return {
    ask: (since) => ({ [offset]: String(Number(since)), [limit]: String(size) }),
    before: (since) => (Number(since) > 0 ? String(Number(since) - 1) : undefined),
    read({ records }, cursor) {
      const next = String(Number(cursor.since) + records.length);
      return answerOf(records, cursor, { since: next, isEnd: records.length === 0 });
    },
  };
}

/** Paging by page number; the next harvest fetches a page again that was not full. */
function byPage(name: string, { page, size, first = 1 }: PagesBy<'page'>): Pager {
  return {
    ask: (since) => ({ [page]: since === '' ? String(first) : since }),
    before: (since) => (Number(since) > first ? String(Number(since) - 1) : undefined),
    async read({ records }, cursor, again) {
      const number = cursor.since === '' ? first : Number(cursor.since);
      const after = String(number + 1);
      const goOn = (whole: readonly Found[]): PageAnswer =>
        answerOf(whole, cursor, { since: after, isEnd: false });
      if (records.length >= size) return goOn(records);
      if (records.length > 0 && (await again(after)).records.length > 0) {
        // The page may have been filled up between the two requests.
        const whole = (await again(String(number))).records;
        if (whole.length >= size) return goOn(whole);
        const what = `${name}: page ${number} has ${whole.length} records, not ${size}`;
        throw ingestError('EXCHANGE_CHANGED', `${what}, and another follows: see pages.size`);
      }
      const known = records.map(hashOf);
      return answerOf(records, cursor, { since: String(number), isEnd: true, known });
    },
  };
}

/** Paging by cursor. An empty page is not the end, as an API may filter records of each page. */
function byCursor(name: string, pages: PagesBy<'cursor'>): Pager {
  const { cursor: parameter, next, header, field, more } = pages;
  const where = next ?? header ?? String(field);
  const nextOf = ({ body, headers, records }: Answer): unknown => {
    if (next !== undefined) return at(body, next);
    if (header !== undefined) return headers[header.toLowerCase()];
    const last = records.at(-1)?.value;
    return last === undefined ? undefined : at(last, field as string);
  };
  return {
    ask: (since): Query => (since === '' ? {} : { [parameter]: since }),
    read(answer, cursor) {
      const { records } = answer;
      const found = nextOf(answer) ?? '';
      if (typeof found !== 'string' && typeof found !== 'number') {
        throw fieldChanged(name, where, 'a text or a number', found);
      }
      const since = String(found);
      const told = (more === undefined ? undefined : at(answer.body, more)) ?? undefined;
      if (told !== undefined && typeof told !== 'boolean') {
        throw fieldChanged(name, String(more), 'true or false', told);
      }
      if (since === '' && told === true) {
        throw fieldChanged(name, where, `a cursor, as ${more} is true`, found);
      }
      if (since === '' || since === cursor.since) return ended(name, records, cursor, since);
      // Without `more` in the answer the cursor counts: a wrong name must not end the harvest.
      return answerOf(records, cursor, { since, isEnd: told === false });
    },
  };
}

/** Makes the answer for the last page, which the next harvest fetches again. */
function ended(
  name: string,
  records: readonly Found[],
  cursor: Cursor,
  next: string | undefined,
): PageAnswer {
  const last = { since: cursor.since, isEnd: true, known: records.map(hashOf) };
  const answer = answerOf(records, cursor, last);
  if (answer.rows.length === 0 || next === undefined || next === '') return answer;
  const what = `${name}: a page with new records names itself as the next one, ${next}`;
  throw ingestError('EXCHANGE_CHANGED', `${what}: the records after it cannot be reached`);
}

function byLink(name: string): Pager {
  return {
    ask: (since): Query | string => (since === '' ? {} : since),
    read({ records, link }, cursor) {
      if (link === undefined || link === cursor.since) return ended(name, records, cursor, link);
      return answerOf(records, cursor, { since: link, isEnd: false });
    },
  };
}

/** A cursor by time: the last time read, and the path to more records of that time. */
interface Moment {
  readonly at?: string | undefined;
  readonly link?: string | undefined;
}

/** Fetches the times of the records from a time on. */
type TimesAt = (from: string) => Promise<readonly bigint[]>;

/**
 * Paging by time: each request begins at the last time of the page before. Records that change
 * meanwhile move to the end, so none is skipped, as happens with page numbers. A link is followed
 * only from a page that is all of one time. `size` is undefined where links tell the end.
 */
function byTime(name: string, since: string, field: string, size: number | undefined): Pager {
  const momentOf = (text: string): Moment => (text === '' ? {} : JSON.parse(text));
  return {
    ask(text): Query | string {
      const { at: from, link } = momentOf(text);
      return link ?? (from === undefined ? {} : { [since]: from });
    },
    async read({ records, link }, cursor, again) {
      const before = momentOf(cursor.since);
      const times = timesOf(name, records, field);
      const timesAt: TimesAt = async (from) =>
        timesOf(name, (await again(JSON.stringify({ at: from }))).records, field);
      if (before.at !== undefined && (await isPassedOver(before, times, timesAt))) {
        const what = `${name}: ${since}=${before.at} gives nothing of that time, but it is there`;
        throw ingestError('EXCHANGE_CHANGED', `${what}: records of one time would be passed over`);
      }
      const lastUs = times.at(-1) ?? -Infinity;
      const isSame = records.length === 0 || lastUs <= (microseconds(before.at) ?? -Infinity);
      const ofLast = records.filter((_, place) => isSame || times[place] === lastUs).map(hashOf);
      const known = isSame ? [...new Set([...(cursor.known ?? []), ...ofLast])] : ofLast;
      const moment = isSame
        ? { at: before.at, link }
        : { at: String(at(records.at(-1)?.value, field)) };
      const nextPage = { since: JSON.stringify(moment), known };
      if (size === undefined) {
        if (link !== undefined && link === before.link) return ended(name, records, cursor, link);
        return answerOf(records, cursor, { ...nextPage, isEnd: link === undefined });
      }
      const answer = answerOf(records, cursor, { ...nextPage, isEnd: false });
      const isLinked = isSame && link !== undefined && link !== before.link;
      if (answer.rows.length > 0 || isLinked) return answer;
      const isFull = records.length >= size;
      if (!isSame || !(isFull || (await isCut(before.at ?? '', records.length, timesAt)))) {
        return { ...answer, isEnd: true };
      }
      const what = `${name}: more than ${records.length} records at ${before.at}`;
      throw ingestError('EXCHANGE_CHANGED', `${what}: later records cannot be reached by time`);
    },
  };
}

/**
 * True if an answer lacks records of exactly the requested time, though a request for an earlier
 * time returns them: then the API returns only records after a time.
 */
async function isPassedOver(
  { at: time = '', link }: Moment,
  times: readonly bigint[],
  timesAt: TimesAt,
): Promise<boolean> {
  const us = microseconds(time);
  const earlier = stepped(time, -1);
  if (link !== undefined || earlier === undefined || us === undefined) return false;
  if (times.some((one) => one <= us)) return false;
  return (await timesAt(earlier)).includes(us);
}

/**
 * True if a page that is all of one time is not the end: the API returns fewer records than
 * requested, and requests from that time on would never lead further.
 */
async function isCut(time: string, count: number, timesAt: TimesAt): Promise<boolean> {
  const us = microseconds(time);
  if (count < 2 || us === undefined) return false;
  // An API that compares whole seconds returns the same records for any time within a second.
  for (const steps of new Set([1, 10 ** digitsOf(time)])) {
    const after = stepped(time, steps);
    const later = after === undefined ? [] : await timesAt(after);
    if (later.length === 0) return false;
    // Later records may have come between the two requests.
    if (later.some((one) => one > us)) return (await timesAt(time)).length === count;
  }
  return true;
}

/** Adds steps of the last digit to a time; keeps its form. */
function stepped(time: string, steps: number): string | undefined {
  const [, whole, part = ''] = seconds.exec(time) ?? [];
  if (whole !== undefined) {
    const number = String(BigInt(whole + part) + BigInt(steps));
    const point = number.length - part.length;
    return part === '' ? number : `${number.slice(0, point)}.${number.slice(point)}`;
  }
  const us = microseconds(time);
  if (us === undefined) return undefined;
  if (time.length === 10) return dayOf(Number(us) + steps * dayUs);
  const digits = digitsOf(time);
  const next = us + BigInt(steps) * 10n ** BigInt(6 - digits);
  // Not negative, also for times before 1970.
  const rest = ((next % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const second = new Date(Number((next - rest) / 1000n)).toISOString().slice(0, 19);
  const fraction = String(rest).padStart(6, '0');
  return `${second}${digits === 0 ? '' : `.${fraction.slice(0, digits)}`}Z`;
}

/** Counts the digits of the fraction of a second, up to microseconds. */
function digitsOf(time: string): number {
  return Math.min(6, /\.(\d+)/.exec(time)?.[1]?.length ?? 0);
}

/** Returns the times of records; throws unless they ascend. */
function timesOf(name: string, records: readonly Found[], field: string): readonly bigint[] {
  const times: bigint[] = [];
  for (const [place, { value }] of records.entries()) {
    const us = microseconds(at(value, field));
    const isLate = us !== undefined && us < (times.at(-1) ?? -Infinity);
    if (us !== undefined && !isLate) {
      times.push(us);
      continue;
    }
    const rule = isLate ? 'not before that of the record before: ask for it ascending' : 'a time';
    throw fieldChanged(name, `records[${place}].${field}`, rule, at(value, field));
  }
  return times;
}
