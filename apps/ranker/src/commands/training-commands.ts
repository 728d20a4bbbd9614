import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import { call, examplesOf, type ServerFlags, scoreOf, table, withServer } from './command-line.ts';

const itemsMax = 1_000;
const lookMs = 1_000;

/** `ranker train-bulk`: many judgements. */
export function trainBulkCommand(): Command {
  const command = new Command('train-bulk')
    .description('tell what many articles are worth to you, a line "url,score" each')
    .option('-f, --file <file>', 'the lines; without it they come from standard input')
    .addHelpText('after', examplesOf('train-bulk -f rated.csv', 'train-bulk < rated.csv'))
    .action(async (options: ServerFlags & { readonly file?: string }) => {
      const { items, wrong } = linesOf(textOf(options.file));
      for (const line of wrong) process.stderr.write(`ranker: ${line}\n`);
      if (items.length === 0) throw new UsageError('there is no line like https://example.org/a,8');
      for (let at = 0; at < items.length; at += itemsMax) {
        await call(options, '/train_bulk', { items: items.slice(at, at + itemsMax) });
      }
      const told = { count: items.length, skipped: wrong.length };
      print(told, options.json, () => {
        return `${told.count} ratings were kept, ${told.skipped} lines were not understood.`;
      });
    });
  return withServer(command);
}

function textOf(file: string | undefined): string {
  try {
    return readFileSync(file ?? 0, 'utf8');
  } catch (error) {
    throw new UsageError(`${file ?? 'standard input'}: ${(error as Error).message}`);
  }
}

/** Split at the last comma; comments and empty lines are skipped. */
function linesOf(text: string) {
  const items: { readonly url: string; readonly score: number }[] = [];
  const wrong: string[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    const plain = line.trim();
    if (plain === '' || plain.startsWith('#')) continue;
    const comma = plain.lastIndexOf(',');
    const url = plain.slice(0, comma).trim();
    try {
      if (comma < 0 || !URL.canParse(url)) throw new UsageError('must be like url,score');
      items.push({ url, score: scoreOf(plain.slice(comma + 1).trim()) });
    } catch (error) {
      wrong.push(`line ${at + 1}: ${(error as Error).message}`);
    }
  }
  return { items, wrong };
}

/** `ranker fetch-training`: the texts that are missing. */
export function fetchTrainingCommand(): Command {
  const command = new Command('fetch-training')
    .description('fetch the texts of rated articles that have none')
    .addHelpText('after', examplesOf('fetch-training'))
    .action(async (options: ServerFlags) => {
      const answer = await call<MessageAnswer>(options, '/fetch_training', {});
      print(answer, options.json, () => answer.message);
    });
  return withServer(command);
}

interface MessageAnswer {
  readonly message: string;
}

/** `ranker retrain`: training in the background. */
export function retrainCommand(): Command {
  const command = new Command('retrain')
    .description('train in the background, with a longer search')
    .option('--quick', 'only what takes a moment')
    .addHelpText('after', examplesOf('retrain', 'retrain --quick'))
    .action(async (options: ServerFlags & { readonly quick?: boolean }) => {
      const body = { kind: options.quick ? 'quick' : 'intensive' };
      const answer = await call<MessageAnswer & { training_samples: number }>(
        options,
        '/retrain',
        body,
      );
      print(answer, options.json, () => {
        return `${answer.message}, with ${answer.training_samples} ratings; see "ranker monitor"`;
      });
    });
  return withServer(command);
}

/** `ranker stats`: how many ratings, and how good predictions are. */
export function statsCommand(): Command {
  const command = new Command('stats')
    .description('show how many ratings there are and how good predictions were')
    .addHelpText('after', examplesOf('stats', 'stats --json'))
    .action(async (options: ServerFlags) => {
      const answer = await call<Record<string, unknown>>(options, '/stats');
      print(answer, options.json, () => {
        const rows = flat(answer).map(([name, value]) => ({ name, value }));
        return table(rows, '');
      });
    });
  return withServer(command);
}

function flat(value: object, prefix = ''): [string, unknown][] {
  return Object.entries(value).flatMap(([name, inner]): [string, unknown][] => {
    const isInner = typeof inner === 'object' && inner !== null;
    return isInner ? flat(inner, `${prefix}${name}.`) : [[`${prefix}${name}`, inner]];
  });
}

interface Training {
  readonly running: { readonly kind: string; readonly progress: number } | null;
  readonly history: readonly object[];
}

/** `ranker monitor`: follows the training. */
export function monitorCommand(): Command {
  const command = new Command('monitor')
    .description('follow the training until Ctrl-C')
    .option('--once', 'show what there is and end')
    .addHelpText('after', examplesOf('monitor', 'monitor --once --json'))
    .action(async (options: ServerFlags & { readonly once?: boolean }) => {
      let last = '';
      for (;;) {
        const answer = await call<Training>(options, '/training');
        const text = options.json ? JSON.stringify(answer) : trainingText(answer);
        if (text !== last) process.stdout.write(`${text}\n`);
        last = text;
        if (options.once) return;
        await pause(lookMs);
      }
    });
  return withServer(command);
}

function trainingText({ running, history }: Training): string {
  if (running === null) return table(history.slice(0, 1), 'Nothing has been trained yet.');
  return `${running.kind} training: ${Math.round(100 * running.progress)} %`;
}

/** `ranker evaluate`: how good each model would have been, or how true explanations are. */
export function evaluateCommand(): Command {
  const command = new Command('evaluate')
    .description('measure each model on your newest ratings, trained on the older ones')
    .option('--explanations', 'delete each explained sentence instead, and compare the scores')
    .addHelpText('after', examplesOf('evaluate', 'evaluate --json', 'evaluate --explanations'))
    .action(async (options: ServerFlags & { readonly explanations?: boolean }) => {
      const path = options.explanations ? '/evaluation/explanations' : '/evaluation';
      const answer = await call<Record<string, unknown>>(options, path);
      print(answer, options.json, () => {
        if (options.explanations) return table([answer], '');
        const models = Object.entries(answer).filter(([, value]) => typeof value === 'object');
        const rows = models.map(([model, quality]) => ({ model, ...(quality as object) }));
        const { trained, tested } = answer;
        return `${trained} ratings to learn from, ${tested} to test on\n${table(rows, '')}`;
      });
    });
  return withServer(command);
}
