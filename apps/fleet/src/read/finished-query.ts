import { fleetError } from '../errors.ts';
import type { QueryTexts } from './query-texts.ts';

/** Which finished runs are asked for; those that were deleted never are. */
export interface FinishedQuery {
  /** Counted from 0. */
  readonly page: number;
  readonly pageSize: number;
  readonly username: string | undefined;
  readonly successOnly: boolean;
  readonly yellowOnly: boolean;
  /** Long time controls only. */
  readonly ltcOnly: boolean;
  /** Last updated then or later, in UNIX milliseconds. */
  readonly since: number | undefined;
}

/** From how many seconds a time control is a long one. */
export const ltcFrom = 40;

const pageSize = 50;
const pagesMax = 1_000_000;

/** Throws `REQUEST_INVALID`. */
export function finishedQuery(query: QueryTexts): FinishedQuery {
  const { page, timestamp } = query;
  if (!/^[1-9]\d*$/.test(page ?? '') || Number(page) > pagesMax) {
    throw fleetError('REQUEST_INVALID', 'Please provide a page number');
  }
  if (timestamp && !/^\d{10}(\.\d+)?$/.test(timestamp)) {
    throw fleetError('REQUEST_INVALID', 'Please provide a valid UNIX timestamp');
  }
  // Postgres has no such character.
  if (query.username?.includes('\0')) throw fleetError('REQUEST_INVALID', 'No such username');
  return {
    page: Number(page) - 1,
    pageSize,
    username: query.username || undefined,
    successOnly: Boolean(query.success_only),
    yellowOnly: Boolean(query.yellow_only),
    ltcOnly: Boolean(query.ltc_only),
    since: timestamp ? Number(timestamp) * 1000 : undefined,
  };
}
