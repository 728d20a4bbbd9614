import type { MeterStats } from '../meter/meter.ts';

export interface LaneStats extends MeterStats {
  readonly name: string;
  readonly limit: number;
  /** Permits in use now, here and in the lanes inside this one. */
  readonly inside: number;
  /** How many wait now, here and in the lanes inside this one. */
  readonly waiting: number;
  /** The lanes inside this one; their numbers are part of this one's. */
  readonly lanes: readonly LaneStats[];
}
