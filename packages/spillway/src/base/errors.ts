/** The kind of a deliberate failure: the fields that do not depend on the case. */
export interface Fault {
  /** Stable name, to be matched on. */
  readonly code: string;
  /** The HTTP status to answer with. */
  readonly status: number;
  /** True if the same call may succeed later, unchanged. */
  readonly retryable: boolean;
}

/** All codes. `isRefusal`: one of our own parts refused the call, so nothing was begun. */
const faults = {
  BACKLOG_LEFT: { status: 500, retryable: false },
  BREAKER_OPEN: { status: 503, retryable: true, isRefusal: true },
  BUCKET_CLOSED: { status: 503, retryable: false, isRefusal: true },
  BUCKET_FULL: { status: 429, retryable: true, isRefusal: true },
  CLEARED: { status: 503, retryable: true, isRefusal: true },
  DATABASE_BUSY: { status: 503, retryable: true },
  DATABASE_CLOSED: { status: 503, retryable: false },
  DATABASE_CONSTRAINT: { status: 409, retryable: false },
  DATABASE_CORRUPT: { status: 500, retryable: false },
  DATABASE_FULL: { status: 507, retryable: false },
  DATABASE_LOST: { status: 503, retryable: true },
  DATABASE_MIGRATION: { status: 500, retryable: false },
  DATABASE_UNUSABLE: { status: 500, retryable: false },
  DEADLINE: { status: 504, retryable: true },
  DOCUMENT_CLOSED: { status: 503, retryable: false },
  DOCUMENT_CORRUPT: { status: 500, retryable: false },
  DOCUMENT_FAILED: { status: 500, retryable: false },
  DOCUMENT_FULL: { status: 503, retryable: true, isRefusal: true },
  DOCUMENT_TOO_LARGE: { status: 500, retryable: false },
  GATE_CLOSED: { status: 503, retryable: false, isRefusal: true },
  GATE_FULL: { status: 503, retryable: true, isRefusal: true },
  GATE_LOST: { status: 503, retryable: true },
  HARVEST_GAPS: { status: 507, retryable: false },
  HARVEST_PAGE_FAILED: { status: 502, retryable: true },
  HARVEST_REFUSED: { status: 502, retryable: false },
  HARVEST_SHORT: { status: 502, retryable: true },
  HARVEST_STALE: { status: 409, retryable: false },
  KEYS_FULL: { status: 503, retryable: true, isRefusal: true },
  LANE_CLOSED: { status: 503, retryable: false, isRefusal: true },
  LANE_FULL: { status: 503, retryable: true, isRefusal: true },
  LANE_LATE: { status: 503, retryable: true, isRefusal: true },
  LANE_STALE: { status: 503, retryable: true, isRefusal: true },
  LEASE_HELD: { status: 503, retryable: true },
  LEASE_LOST: { status: 503, retryable: true },
  LOCK_FAILED: { status: 500, retryable: false },
  LOCK_FULL: { status: 503, retryable: true, isRefusal: true },
  LOCK_LOST: { status: 503, retryable: true },
  POOL_CLOSED: { status: 503, retryable: false, isRefusal: true },
  POOL_FULL: { status: 503, retryable: true, isRefusal: true },
  POOL_START: { status: 500, retryable: false },
  SERVICE_CLOSE: { status: 500, retryable: false },
  SERVICE_START: { status: 500, retryable: false },
  STORE_FULL: { status: 503, retryable: true },
  STORE_UNREACHABLE: { status: 503, retryable: true, isRefusal: true },
  UNEXPECTED: { status: 500, retryable: false },
  UPSTREAM_SLOW: { status: 504, retryable: true },
  UPSTREAM_UNREACHABLE: { status: 502, retryable: true },
  WORKER_LOST: { status: 502, retryable: true },
} as const;

/** Every code this package throws; `docs/errors.md` says what to do about each. */
export type ErrorCode = keyof typeof faults;

/** True if one of our own parts refused the call, so that nothing was begun. */
export function isRefusal(error: unknown): error is SpillwayError {
  const isOurs = error instanceof SpillwayError && Object.hasOwn(faults, error.code);
  return isOurs && 'isRefusal' in faults[error.code as ErrorCode];
}

export const errorCodes: readonly ErrorCode[] = Object.keys(faults) as ErrorCode[];

export interface SpillwayErrorOptions {
  /** The error that led to this one. */
  readonly cause?: unknown;
  /** Milliseconds until a retry makes sense; also sent as `Retry-After`. */
  readonly retryAfterMs?: number | undefined;
}

/** Known to every copy of the package that a process has loaded. */
const brand = Symbol.for('spillway.SpillwayError');

/** `instanceof`: true for the errors of another copy, too; a subclass knows only its own. */
function hasInstance(this: object, value: unknown): boolean {
  if (this === SpillwayError) return (value as { [brand]?: true } | null)?.[brand] === true;
  return Function.prototype[Symbol.hasInstance].call(this, value);
}

/**
 * The class of every deliberate failure. Match on `code`, never on the message.
 * Fastify reads `status` and `headers` without any glue.
 */
export class SpillwayError extends Error {
  override readonly name = 'SpillwayError';
  /** One of the runtime's codes, which an editor completes, or one of your own. */
  readonly code: ErrorCode | (string & {});
  readonly status: number;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  static {
    Object.defineProperty(SpillwayError.prototype, brand, { value: true });
    Object.defineProperty(SpillwayError, Symbol.hasInstance, { value: hasInstance });
  }

  constructor(kind: ErrorCode | Fault, message: string, options: SpillwayErrorOptions = {}) {
    const fault = typeof kind === 'string' ? faults[kind] : kind;
    const hasCause = 'cause' in options;
    const { stackTraceLimit } = Error;
    // A refusal needs no stack, and under overload there are thousands a second: 8 us each with a
    // stack, 0.6 us without (2026-11).
    if (fault.retryable && !hasCause) Error.stackTraceLimit = 0;
    super(message, hasCause ? { cause: options.cause } : undefined);
    Error.stackTraceLimit = stackTraceLimit;
    this.code = typeof kind === 'string' ? kind : kind.code;
    this.status = fault.status;
    this.retryable = fault.retryable;
    this.retryAfterMs = options.retryAfterMs;
  }

  /** Headers of the answer: `retry-after` in whole seconds, rounded up, when it is known. */
  get headers(): Readonly<Record<string, string>> {
    if (this.retryAfterMs === undefined) return {};
    return { 'retry-after': String(Math.max(1, Math.ceil(this.retryAfterMs / 1000))) };
  }

  /** Fields for a log: `JSON.stringify` would leave the message out. */
  toJSON(): object {
    return { ...this, message: this.message };
  }
}

/** Makes the deliberate failures of one package or app. */
export type ErrorMaker<Code extends string> = (
  code: Code,
  message: string,
  options?: SpillwayErrorOptions,
) => SpillwayError;

/** Makes failures with codes of their own, from a table of faults. */
export function errorMaker<Code extends string>(
  faults: Readonly<Record<Code, Omit<Fault, 'code'>>>,
): ErrorMaker<Code> {
  return (code, message, options) => new SpillwayError({ code, ...faults[code] }, message, options);
}

/** Marks the error of a write that may have been done: not retryable, and its message says so. */
export function inDoubt(error: unknown): unknown {
  if (!(error instanceof SpillwayError) || !error.retryable) return error;
  const message = `${error.message}; whether the write was committed is not known`;
  const fault = { code: error.code, status: error.status, retryable: false };
  return new SpillwayError(fault, message, { cause: error });
}
