import { hashSize } from '../scheduling/memory-need.ts';
import type { RunArgs } from '../scheduling/run-record.ts';
import { brackets } from '../statistics/result-text.ts';

const longBaseSeconds = 40;

/** What the event log says of a new run: `SPRT<0.00,2.00> TC:10+0.1 Book:b.epd Threads:1 …` */
export function submissionText(args: RunArgs): string {
  const { tc, new_tc, book, threads, base_options, new_options } = args;
  const isLong = Number.parseFloat(tc) >= longBaseSeconds;
  const odds = new_tc === tc ? '' : `[${new_tc}]`;
  return [
    stopRule(args),
    `TC:${tc}${odds}${isLong ? '(LTC)' : ''}`,
    `Book:${book}`,
    `Threads:${threads}${threads > 1 ? '(SMP)' : ''}`,
    `Hash:${hashSize(base_options)}/${hashSize(new_options)}`,
  ].join(' ');
}

function stopRule({ sprt, spsa, num_games }: RunArgs): string {
  if (spsa !== undefined) return `SPSA[${num_games}]`;
  if (sprt === undefined) return `NumGames[${num_games}]`;
  const [open, close] = brackets[sprt.elo_model ?? 'BayesElo'];
  return `SPRT${open}${sprt.elo0.toFixed(2)},${sprt.elo1.toFixed(2)}${close}`;
}
