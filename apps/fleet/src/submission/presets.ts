import type { RunArgs } from '../scheduling/run-record.ts';

type Preset = Partial<Pick<RunArgs, 'tc' | 'threads' | 'throughput' | 'num_games'>> & {
  readonly new_options: string;
  readonly base_options: string;
  readonly sprt?: { readonly elo0: number; readonly elo1: number };
};

const progressGames = 60_000;

/** The usual kinds of test, by their name in capital letters. */
export const presets: ReadonlyMap<string, Preset> = new Map([
  ['STC', preset({ tc: '10+0.1', threads: 1, hash: 16, throughput: 100, bounds: [0, 2] })],
  ['LTC', preset({ tc: '60+0.6', threads: 1, hash: 64, throughput: 100, bounds: [0.5, 2.5] })],
  ['STC-SMP', preset({ tc: '5+0.05', threads: 8, hash: 64, throughput: 100, bounds: [0, 2] })],
  ['LTC-SMP', preset({ tc: '20+0.2', threads: 8, hash: 256, throughput: 100, bounds: [0.5, 2.5] })],
  ['VLTC', preset({ tc: '180+1.8', threads: 1, hash: 192, throughput: 50, bounds: [0, 2] })],
  ['VLTC-SMP', preset({ tc: '60+0.6', threads: 8, hash: 512, throughput: 50, bounds: [0.5, 2.5] })],
  ['PT', preset({ tc: '60+0.6', threads: 1, hash: 64, throughput: 100 })],
  ['PT-SMP', preset({ tc: '60+0.6', threads: 8, hash: 512, throughput: 100 })],
]);

interface Kind {
  readonly tc: string;
  readonly threads: number;
  /** In MiB. */
  readonly hash: number;
  readonly throughput: number;
  /** Without them a fixed number of games is played. */
  readonly bounds?: readonly [elo0: number, elo1: number];
}

function preset({ tc, threads, hash, throughput, bounds }: Kind): Preset {
  const options = `Hash=${hash}`;
  const common = { tc, threads, throughput, new_options: options, base_options: options };
  if (bounds === undefined) return { ...common, num_games: progressGames };
  const [elo0, elo1] = bounds;
  return { ...common, sprt: { elo0, elo1 } };
}
