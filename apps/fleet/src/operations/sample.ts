/** A book of the official collection, which workers fetch by themselves. */
export const sampleBooks: Readonly<Record<string, object>> = {
  'noob_3moves.epd': {
    total: 150932,
    white: 150932,
    black: 0,
    min_depth: 6,
    max_depth: 6,
    sri: 'FvfPX09TMPXct8CAIehuAZn16lLNP5Hn/tChtjz0sQ3bOh03OHi/r2LEosksvHKX',
  },
};

/** Stockfish 17 against itself. */
const engine = { sha: 'e0bfc4b69bbe928d6f474a46560bcc3b3f6709aa', signature: '1484730' };
const common = {
  new_tag: 'sf_17',
  base_tag: 'sf_17',
  resolved_new: engine.sha,
  resolved_base: engine.sha,
  new_signature: engine.signature,
  base_signature: engine.signature,
  book: 'noob_3moves.epd',
  tc: '10+0.1',
};
/** Runs that are there to try a worker with. */
export const sampleRuns: readonly object[] = [
  { ...common, num_games: 1_000, info: 'A fixed number of games, to try a worker.' },
  { ...common, sprt: { elo0: 0, elo1: 2 }, info: 'A sequential test, to try a worker.' },
];
