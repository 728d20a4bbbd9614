/** One answer of an exchange: trades in ascending order of id, each id once. */
export interface TradePage {
  /** Safe integers. */
  readonly ids: Float64Array;
  /** Microseconds since 1970 in UTC, one for each id. */
  readonly timesUs: BigInt64Array;
  /** The trades as the exchange wrote them: one line of JSON for each id, each with its end. */
  readonly lines: Uint8Array;
}
