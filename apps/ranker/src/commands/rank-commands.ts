import { Command } from 'commander';
import { print } from 'spillway-cli';
import {
  call,
  examplesOf,
  itemOf,
  type ServerFlags,
  scoreOf,
  table,
  withServer,
} from './command-line.ts';

interface RankAnswer {
  readonly url: string;
  readonly title: string;
  readonly rank: number;
  readonly version: number;
  readonly explanation?: {
    readonly nearest: readonly { readonly title: string; readonly score: number }[];
    readonly sentences: readonly { readonly text: string; readonly points: number }[];
    readonly words: readonly { readonly word: string; readonly points: number }[];
    readonly contributions: readonly { readonly reason: string; readonly points: number }[];
  };
}

interface CorrectAnswer {
  readonly message: string;
  readonly predicted: number;
  readonly rank: number;
  readonly version: number;
}

/** `ranker rank`: what an article is worth. */
export function rankCommand(): Command {
  const command = new Command('rank')
    .description('score an article; with a score of yours, learn it too')
    .argument('<url|file>', 'its address, a file with its text, or - for standard input')
    .argument('[score]', 'what it is worth to you, from 1 to 10')
    .option('--explain', 'say why')
    .addHelpText(
      'after',
      examplesOf('rank https://example.org/a', 'rank notes.txt --explain', 'rank notes.txt 9'),
    )
    .action(async (word: string, score: string | undefined, options: Flags) => {
      if (score !== undefined) return await correct(word, score, options);
      const body = { ...itemOf(word), ...(options.explain && { explain: true }) };
      const answer = await call<RankAnswer>(options, '/rank', body);
      print(answer, options.json, () => rankText(answer));
    });
  return withServer(command);
}

interface Flags extends ServerFlags {
  readonly explain?: boolean;
}

/** `ranker train`: one judgement. */
export function trainCommand(): Command {
  const command = new Command('train')
    .description('tell what an article is worth to you')
    .argument('<url|file>', 'its address, a file with its text, or - for standard input')
    .argument('<score>', 'from 1 to 10')
    .addHelpText('after', examplesOf('train https://example.org/a 9', 'train sample:red-carpet 1'))
    .action((word: string, score: string, options: Flags) => correct(word, score, options));
  return withServer(command);
}

async function correct(word: string, score: string, options: Flags): Promise<void> {
  const body = { ...itemOf(word), score: scoreOf(score) };
  const answer = await call<CorrectAnswer>(options, '/correct_rank', body);
  const { message, predicted, rank, version } = answer;
  print(answer, options.json, () => {
    return `${message}: ${predicted.toFixed(1)} before, ${rank.toFixed(1)} now (taste ${version})`;
  });
}

/** `ranker articles`: what there is to read. */
export function articlesCommand(): Command {
  const command = new Command('articles')
    .description('list the newest articles, best first')
    .option('--search <words>', 'only those with all of these words')
    .option('--limit <number>', 'how many of the newest', '30')
    .addHelpText('after', examplesOf('articles', 'articles --search bridge --json'))
    .action(async (options: ServerFlags & { search?: string; limit: string }) => {
      const query = new URLSearchParams({ limit: options.limit, search: options.search ?? '' });
      const answer = await call<{ articles: Listed[] }>(options, `/articles?${query}`);
      const rows = answer.articles.map(({ rank, vote, title, url }) => {
        return { rank: rank?.toFixed(1), vote, title, url };
      });
      const none =
        options.search === undefined ? 'There is nothing to read yet.' : 'None is found.';
      print(answer, options.json, () => table(rows, none));
    });
  return withServer(command);
}

interface Listed {
  readonly rank: number | null;
  readonly vote: number | null;
  readonly title: string;
  readonly url: string;
}

function rankText({ rank, version, title, url, explanation }: RankAnswer): string {
  const first = `${rank.toFixed(1)}  ${title || url} (taste ${version})`;
  if (explanation === undefined) return first;
  const { nearest, sentences, words, contributions } = explanation;
  const points = contributions
    .filter((one) => Math.abs(one.points) >= 0.05)
    .map((one) => `  ${one.points >= 0 ? '+' : ''}${one.points.toFixed(1)} ${one.reason}`);
  const like = nearest.map((one) => `  like "${one.title}", which you gave ${one.score}`);
  const said = sentences.map((one) => `  ${one.points.toFixed(2)} "${one.text}"`);
  const named = words.map((one) => `  ${one.points.toFixed(2)} the word "${one.word}"`);
  return [first, ...points, ...like, ...said, ...named].join('\n');
}
