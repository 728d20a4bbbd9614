import { Command, InvalidArgumentError } from 'commander';
import { print } from 'spillway-cli';
import { examplesOf, openFor, table, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';

interface QueryCommandOptions {
  readonly rowsMax: number;
  readonly version?: number;
  readonly json?: boolean;
}

/** `ingest query`: SQL on the table. */
export function queryCommand(): Command {
  const command = new Command('query')
    .description('ask the table with SQL: one view, trades; nothing can be changed')
    .argument('<sql>')
    .option('--rows-max <number>', 'rows after which the rest is left out', integerFrom1, 1_000)
    .option('--version <number>', 'a version of the table before the newest', integerFrom1)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examplesOf(
        'query "SELECT product, count(*) AS trades FROM trades GROUP BY product"',
        'query --json "SELECT * FROM trades ORDER BY trade_ts DESC LIMIT 5"',
      ),
    )
    .action(async (sql: string, { json, ...options }: QueryCommandOptions, self: Command) => {
      using stop = new Interruption();
      await using ingest = await openFor(self, { signal: stop.signal });
      const trades = await ingest.table();
      const result = await trades.query(sql, { ...options, signal: stop.signal });
      print(result, json, () => {
        const rest = result.cut ? `\n(more than ${options.rowsMax} rows; see --rows-max)` : '';
        return `${table(result.rows, '(no rows)')}${rest}`;
      });
    });
  return withSettings(command, ['s3Bucket']);
}

/** For flags that are whole numbers. */
export function integerFrom1(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be an integer from 1.');
}
