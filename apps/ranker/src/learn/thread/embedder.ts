import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { type Transfer, transfer, type WorkerContext } from 'spillway';
import { type ArticleText, addTo, normalise } from '../document.ts';
import { weightFile } from '../embedding-model.ts';
import { countWords, groupEnd, sentencesOf } from '../sentences.ts';
import { type Words, wordsOf } from '../words.ts';

/** Tokens read of a sentence: more of them cost more and change its vector hardly. */
const tokensMax = 128;

interface Model {
  readonly tokenizer: Tokenizer;
  readonly session: InferenceSession;
}

type Context = Pick<WorkerContext<Model>, 'resource' | 'aborted' | 'signal'>;

/** The result of an article's first task. */
export interface Beginning {
  /** The number of words. */
  readonly length: number;
  readonly words: Words;
  readonly sentences: readonly string[];
  /** The title and the first sentences; the title is left out when there is none. */
  readonly vectors: Float32Array;
}

/** A typical article, embedded at the start: the first request must not wait for cold code. */
const warmUp =
  'It was late when the last train left the old station, and nobody saw it go. '.repeat(8);

/** Loads the model that this worker's address names, and embeds an article with it. */
export async function setup(): Promise<Model> {
  const asked = new URL(import.meta.url).searchParams;
  const folder = asked.get('folder') ?? '';
  const read = async (name: string): Promise<object> =>
    JSON.parse(await readFile(join(folder, name), 'utf8'));
  const tokenizer = new Tokenizer(
    await read('tokenizer.json'),
    await read('tokenizer_config.json'),
  );
  const weights = join(folder, weightFile(asked.get('precision') ?? ''));
  // The pool has a thread for each core it may use; a session with more would take others' cores.
  const session = await InferenceSession.create(weights, {
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
  });
  const resource = { tokenizer, session };
  const context = { resource, aborted: false, signal: new AbortController().signal };
  await begin({ title: '', text: warmUp, sentencesMax: 8 }, context);
  return resource;
}

export async function teardown({ session }: Model): Promise<void> {
  await session.release();
}

/** The length of this model's vectors. */
export async function dimension(_: undefined, { resource }: Context): Promise<number> {
  return (await vectorOf(resource, 'size')).length;
}

/** Splits an article and embeds its title and its first sentences. */
export async function begin(
  input: ArticleText & { readonly sentencesMax: number },
  context: Context,
): Promise<Transfer<Beginning>> {
  const { title, text, sentencesMax } = input;
  const sentences = sentencesOf(text, sentencesMax);
  const first = sentences.slice(0, groupEnd(sentences, 0));
  const vectors = await vectorsOf(title === '' ? first : [title, ...first], context);
  const words = wordsOf(input);
  return transfer({ length: countWords(text), words, sentences, vectors }, [vectors.buffer]);
}

/** Embeds each text by itself, and gives the vectors one after another. */
export async function embed(
  texts: readonly string[],
  context: Context,
): Promise<Transfer<Float32Array>> {
  const vectors = await vectorsOf(texts, context);
  return transfer(vectors, [vectors.buffer]);
}

async function vectorsOf(
  texts: readonly string[],
  context: Context,
): Promise<Float32Array<ArrayBuffer>> {
  let all = new Float32Array(0);
  for (const [index, text] of texts.entries()) {
    if (context.aborted) context.signal.throwIfAborted();
    const vector = await vectorOf(context.resource, text);
    if (index === 0) all = new Float32Array(texts.length * vector.length);
    all.set(vector, index * vector.length);
  }
  return all;
}

/** The mean of the model's vectors for each token, normalised. */
async function vectorOf({ tokenizer, session }: Model, text: string): Promise<Float32Array> {
  const { ids } = tokenizer.encode(text);
  if (ids.length > tokensMax) ids.splice(tokensMax - 1, ids.length - tokensMax);
  const shape = [1, ids.length];
  const row = (value: (index: number) => number) =>
    new Tensor(
      'int64',
      BigInt64Array.from(ids, (_, index) => BigInt(value(index))),
      shape,
    );
  const inputs = {
    input_ids: row((index) => ids[index] as number),
    attention_mask: row(() => 1),
    token_type_ids: row(() => 0),
  };
  const wanted = Object.entries(inputs).filter(([name]) => session.inputNames.includes(name));
  const outputs = await session.run(Object.fromEntries(wanted));
  const states = outputs[session.outputNames[0] as string] as Tensor;
  return direction(states.data as Float32Array, ids.length);
}

function direction(states: Float32Array, tokens: number): Float32Array {
  const length = states.length / tokens;
  const sum = new Float32Array(length);
  for (let from = 0; from < states.length; from += length) {
    addTo(sum, states.subarray(from, from + length), 1);
  }
  return normalise(sum);
}
