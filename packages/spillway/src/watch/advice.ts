/** Figures of a lane over some seconds, taken from its stats. */
export interface LaneFigures {
  readonly name: string;
  readonly limit: number;
  readonly inside: number;
  readonly waiting: number;
  readonly arrivalsPerSecond: number;
  readonly serviceMs: { readonly mean: number; readonly p50: number };
  /** The lane around it, if it has one. */
  readonly parent?: string | undefined;
  /** Calls that arrived in that time. */
  readonly arrived: number;
  /** Calls among these that were refused. */
  readonly refused: number;
  /** The usual median of the service time. @default unknown */
  readonly usualMs?: number | undefined;
}

/** A judgement of a lane by Little's law. */
export interface LaneAdvice {
  readonly finding: 'too small' | 'behind something slow' | 'starved' | 'larger than it needs';
  /** Share of calls that were refused, from 0 to 1. */
  readonly share: number;
  /** The calculation and what to do, in plain words. */
  readonly text: string;
}

/** A smaller share of refused calls gives no advice. */
const shareMin = 0.005;
/** A service time that is this many times the usual one shows a slow downstream. */
const slowFactor = 2;
/** Factor above the permits that Little's law gives, since arrivals are not even. */
const headroom = 1.3;
/** A lane with more than this many times the permits that it needs is called too large. */
const largeFactor = 10;

/** Judges a lane: arrivals × time inside is the number of permits that are kept busy. */
export function adviseLane(figures: LaneFigures): LaneAdvice | undefined {
  const { arrivalsPerSecond, serviceMs, limit, inside, usualMs = 0 } = figures;
  const share = figures.refused / Math.max(1, figures.arrived);
  const busy = (arrivalsPerSecond * serviceMs.mean) / 1_000;
  const enough = Math.ceil(busy * headroom);
  const isLarge = arrivalsPerSecond >= 1 && limit > largeFactor * Math.max(1, enough);
  if (share < shareMin && !isLarge) return undefined;
  const calls = `${figure(arrivalsPerSecond)} calls a second, each inside for`;
  const kept = `${calls} ${figure(serviceMs.mean)} ms, keep ${figure(busy)} permits busy.`;
  const sum = `${kept} The lane has ${figure(limit)}.`;
  if (share < shareMin) {
    const text = `${sum} ${Math.max(1, enough)} would be enough for this load.`;
    return { finding: 'larger than it needs', share, text };
  }
  if (usualMs > 0 && serviceMs.p50 > slowFactor * usualMs) {
    const text = `${sum} What it calls has become slow: more permits would not help.`;
    return { finding: 'behind something slow', share, text };
  }
  if (figures.parent !== undefined && figures.waiting > 0 && inside < limit) {
    const full = `Its callers wait while it has ${figure(limit - inside)} permits of its own left`;
    const text = `${sum} ${full}: ${figures.parent} around it is full of other work.`;
    return { finding: 'starved', share, text };
  }
  const wanted = figure(Math.max(enough, limit + 1));
  const text = `${sum} ${wanted} would be enough, if what it calls can bear them.`;
  return { finding: 'too small', share, text };
}

/** The formatter is not made when the module is loaded: that takes 15 ms of CPU (2026-11). */
function figure(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: 1 });
}
