import { createWriteStream, readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import { examplesOf, open, type ServerFlags, withServer } from './command-line.ts';

const type = 'application/x-ndjson';
/** Lines are sent in pieces of about this many characters. */
const pieceMax = 2_000_000;

/** `ranker export`: all that a user has given. */
export function exportCommand(): Command {
  const command = new Command('export')
    .description('write ratings with their texts, feeds and rules, a JSON value a line')
    .option('-o, --output <file>', 'where to (default: standard output)')
    .addHelpText('after', examplesOf('export -o mine.ndjson', 'export | gzip > mine.ndjson.gz'))
    .action(async (options: ServerFlags & { readonly output?: string }) => {
      const { body } = await open(options, '/export');
      const from = Readable.fromWeb(body as ReadableStream);
      const isFile = options.output !== undefined;
      const to = isFile ? createWriteStream(options.output as string) : process.stdout;
      await pipeline(from, to, { end: isFile });
    });
  return withServer(command);
}

interface Imported {
  readonly ratings: number;
  readonly feeds: number;
  readonly rules: number;
}

/** `ranker import`: what was exported, here or elsewhere. */
export function importCommand(): Command {
  const command = new Command('import')
    .description('take what an export wrote')
    .argument('<file>', 'the export, or - for standard input')
    .addHelpText('after', examplesOf('import mine.ndjson', 'import - < mine.ndjson'))
    .action(async (file: string, options: ServerFlags) => {
      const sum = { ratings: 0, feeds: 0, rules: 0 };
      for (const body of piecesOf(file)) {
        const done = (await (await open(options, '/import', body, type)).json()) as Imported;
        sum.ratings += done.ratings;
        sum.feeds += done.feeds;
        sum.rules += done.rules;
      }
      print(sum, options.json, () => {
        return `${sum.ratings} ratings, ${sum.feeds} feeds and ${sum.rules} rules were taken.`;
      });
    });
  return withServer(command);
}

function* piecesOf(file: string): Generator<string> {
  let text = '';
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file}: ${(error as Error).message}`);
  }
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', Math.min(text.length, from + pieceMax));
    const to = end < 0 ? text.length : end + 1;
    yield text.slice(from, to);
    from = to;
  }
}
