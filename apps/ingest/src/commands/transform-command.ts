import { Command } from 'commander';
import { print } from 'spillway-cli';
import type { Transformed } from '../harvesting/transformer.ts';
import { counted, examplesOf, openFor, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';
import { tellWork } from './progress.ts';

interface TransformOptions {
  readonly rebuild?: boolean;
  readonly json?: boolean;
}

/** `ingest transform`: brings the table up to date with the raw files. */
export function transformCommand(): Command {
  const command = new Command('transform')
    .description('bring the table up to date with the raw files')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--rebuild', 'make the products anew, from all of their raw files')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('transform', 'transform BTC-USD --rebuild'))
    .action(async (named: string[], { rebuild = false, json }: TransformOptions, self: Command) => {
      using stop = new Interruption();
      await using ingest = await openFor(self, { signal: stop.signal });
      const products = named.length > 0 ? named : undefined;
      using told = tellWork('Bringing the table up to date …');
      const transformer = await ingest.transformer();
      const done = await transformer.run({ products, rebuild, waits: false }, stop.signal);
      told[Symbol.dispose]();
      print(done, json, () => transformedText(done));
    });
  return withSettings(command, ['s3Bucket']);
}

export function transformedText({ files, read, added, partitions, version }: Transformed): string {
  if (files === 0) return `The table has all raw files already; it is at version ${version}.`;
  const what = `${counted(read, 'line')} of ${counted(files, 'raw file')} read`;
  const news = `${counted(added, 'trade')} added in ${counted(partitions, 'partition')}`;
  return `${what}, ${news}: version ${version}.`;
}
