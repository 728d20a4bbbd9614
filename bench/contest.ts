import { Corner } from './corner.ts';

/** The value that a figure must reach. */
export interface Target {
  /** Name of the contender to compare with. @default the best of the peers */
  readonly peer?: string | undefined;
  readonly text: string;
  met(figures: Pick<Row, 'ours' | 'peer' | 'ratio'>): boolean;
}

/** One number that a run measures for each contender. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly better: 'more' | 'less';
  readonly targets: readonly Target[];
}

/** One task that every contender performs. */
export interface Run {
  readonly name: string;
  readonly figures: readonly Figure[];
  /** True if all contenders run at the same time: for runs that mostly wait. */
  readonly together?: boolean;
  /** Rounds of each contender, one after the other. */
  readonly rounds: number;
  /** True for a run that a quick look leaves out. @default false */
  readonly isLong?: boolean | undefined;
  /** The round that counts: the best where noise can only make it worse. @default 'median' */
  readonly counts?: 'median' | 'best';
  /**
   * True if the ratio is the median of the ratios of all rounds, in each of which the contenders
   * ran right after each other, in alternating order: noise that lasts longer than a round then
   * affects both. @default false: the ratio of the two figures
   */
  readonly isPaired?: boolean;
}

/** Performs a run with one contender and returns its figures by name. */
export type Contestant = (run: string, quick: boolean) => Promise<Readonly<Record<string, number>>>;

/** A claim, and the contenders it is measured against. */
export interface Bench {
  /** By name; the first is ours. */
  readonly contenders: Readonly<Record<string, () => Promise<Contestant>>>;
  /** Contenders that only show what is possible: they never count as "the best peer". */
  readonly yardsticks: readonly string[];
  readonly runs: readonly Run[];
  /**
   * Number of times that everything is measured in new processes; their rounds count together. More
   * than one where the compiler's choices differ from process to process. @default 1
   */
  readonly processes?: number;
}

/** One comparison, as it is published. */
export interface Row {
  readonly name: string;
  readonly ours: number;
  readonly peer: number;
  /** Factor by which ours is better than the peer; below 1 ours is worse. */
  readonly ratio: number;
  readonly unit: string;
  readonly peerName: string;
  readonly target: string | null;
  readonly met: boolean | null;
  /** Minimum and maximum of the rounds. */
  readonly oursRange: Range;
  readonly peerRange: Range;
}

export type Range = readonly [least: number, most: number];

/** The rounds of one contender for one figure. */
interface Reading {
  readonly value: number;
  readonly range: Range;
  readonly rounds: readonly number[];
}

/** A target: ours is at least this many times better than the peer. */
export function times(least: number, peer?: string): Target {
  const text = `at least ${least}x ${peer ?? 'the best peer'}`;
  return { peer, text, met: ({ ratio }) => ratio >= least };
}

/** A target: ours is at least this much, whatever the peers reach. */
export function atLeast(least: number, unit: string): Target {
  return { text: `at least ${least} ${unit}`, met: ({ ours }) => ours >= least };
}

/** A target: ours is at most this much, whatever the peers need. */
export function atMost(most: number, unit: string): Target {
  return { text: `at most ${most} ${unit}`, met: ({ ours }) => ours <= most };
}

/** The part of a bench that is measured, and how. */
export interface Choice {
  readonly quick: boolean;
  /** Text that the names of the runs contain. @default all of them */
  readonly only?: string | undefined;
  /** Called with the name of each run that begins. */
  readonly tell: (run: string) => void;
}

/**
 * Every contender performs every run, in turns (A B C, A B C), so that a noisy minute of the
 * machine hits all of them.
 */
export async function contest(name: string, bench: Bench, options: Choice): Promise<Row[]> {
  const { quick, only = '', tell } = options;
  const runs = bench.runs.filter((run) => run.name.includes(only) && !(quick && run.isLong));
  const results = new Map(runs.map((run): [Run, Results] => [run, new Map()]));
  const { processes = 1 } = bench;
  for (let at = 0; at < (quick ? 1 : processes); at += 1) {
    await using stack = new AsyncDisposableStack();
    const corners = new Map<string, Corner>();
    for (const contender of Object.keys(bench.contenders)) {
      corners.set(contender, await stack.use(new Corner(name, contender)).open());
    }
    for (const [run, all] of results) {
      tell(`${name}: ${run.name}`);
      await rounds(run, corners, all, quick);
    }
  }
  return [...results].flatMap(([run, all]) =>
    run.figures.flatMap((figure) => {
      const readings = new Map(
        [...all].map(([contender, own]) => [contender, readingOf(own, figure, run)]),
      );
      const title = `${name}: ${run.name}: ${figure.name}`;
      return compare(title, { figure, readings, isPaired: run.isPaired === true }, bench);
    }),
  );
}

function readingOf(
  results: readonly Readonly<Record<string, number>>[],
  { name, better }: Figure,
  { counts }: Run,
): Reading {
  const values = results.map((result) => result[name] ?? Number.NaN);
  const best = better === 'more' ? Math.max : Math.min;
  const value = counts === 'best' ? best(...values) : median(values);
  return { value, range: [Math.min(...values), Math.max(...values)], rounds: values };
}

type Results = Map<string, Readonly<Record<string, number>>[]>;

async function rounds(
  run: Run,
  corners: ReadonlyMap<string, Corner>,
  results: Results,
  quick: boolean,
): Promise<void> {
  const measure = async ([contender, corner]: [string, Corner]): Promise<void> => {
    const result = await corner.measure(run.name, quick);
    results.set(contender, [...(results.get(contender) ?? []), result]);
  };
  for (let round = 0; round < (quick ? 1 : run.rounds); round += 1) {
    if (run.together) await Promise.all([...corners].map(measure));
    else {
      const isTurned = run.isPaired === true && round % 2 === 1;
      const order = isTurned ? [...corners].reverse() : corners;
      for (const entry of order) await measure(entry);
    }
  }
}

interface Comparison {
  readonly figure: Figure;
  readonly readings: ReadonlyMap<string, Reading>;
  readonly isPaired: boolean;
}

function compare(
  name: string,
  { figure: { unit, better, targets }, readings, isPaired }: Comparison,
  { contenders, yardsticks }: Bench,
): Row[] {
  const [us = '', ...others] = Object.keys(contenders);
  const none: Reading = { value: Number.NaN, range: [Number.NaN, Number.NaN], rounds: [] };
  const reading = (contender: string): Reading => readings.get(contender) ?? none;
  const value = (contender: string): number => reading(contender).value;
  const sign = better === 'more' ? -1 : 1;
  // Published figures are not complete.
  const measured = others.filter((other) => !Number.isNaN(value(other)));
  const peers = measured.filter((other) => !yardsticks.includes(other));
  const best = peers.sort((a, b) => sign * (value(a) - value(b)))[0] ?? '';
  const row = (peerName: string, target?: Target): Row => {
    const ours = value(us);
    const peer = value(peerName);
    const ratioOf = (mine: number, theirs = Number.NaN): number =>
      better === 'more' ? mine / theirs : theirs / mine;
    const theirs = reading(peerName).rounds;
    const ratios = reading(us).rounds.map((mine, at) => ratioOf(mine, theirs[at]));
    const ratio = isPaired ? median(ratios) : ratioOf(ours, peer);
    const met = target?.met({ ours, peer, ratio }) ?? null;
    const ranges = { oursRange: reading(us).range, peerRange: reading(peerName).range };
    return {
      name,
      ours,
      peer,
      ratio,
      unit,
      peerName,
      target: target?.text ?? null,
      met,
      ...ranges,
    };
  };
  const judged = targets.map((target) => row(target.peer ?? best, target));
  const rest = measured.filter((other) => !judged.some(({ peerName }) => peerName === other));
  return [...judged, ...rest.map((other) => row(other))];
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}
