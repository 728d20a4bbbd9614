import type { Random } from 'spillway';
import { check, checkInteger } from 'spillway/internal';
import { Arena } from './arena.ts';
import { Attention, type AttentionNumbers } from './attention.ts';
import { scoreUnknown } from './score.ts';
import { simdStep } from './simd-code.ts';

/** How large a network is; each a multiple of 16. */
export interface NetworkShape {
  readonly dimension: number;
  readonly attention: number;
  readonly hidden: number;
}

/** An article as the network sees it. */
export interface NetworkInput {
  readonly sentences: Float32Array;
  /** The number of the first sentence of each chunk. */
  readonly chunks: Uint32Array;
}

interface Numbers {
  readonly all: Float32Array;
  readonly sentence: AttentionNumbers;
  readonly chunk: AttentionNumbers;
  readonly hidden: Float32Array;
  readonly hiddenBias: Float32Array;
  readonly out: Float32Array;
  readonly outBias: Float32Array;
}

/** How many numbers a network of this shape has. */
export function networkSize({ dimension, attention, hidden }: NetworkShape): number {
  const level = 2 * attention * dimension + 3 * attention;
  return 2 * level + hidden * dimension + 2 * hidden + simdStep;
}

/**
 * Hierarchical attention: sentences are pooled into chunks and chunks into an article, each by what
 * this reader asks for, and two layers make a score of it. A fresh one says 5.5 of everything.
 */
export class Network {
  readonly #shape: NetworkShape;
  readonly #arena: Arena;
  readonly #numbers: Numbers;
  readonly #gradients: Numbers;
  readonly #sentence: Attention;
  readonly #chunk: Attention;
  readonly #rows: Float32Array;
  readonly #chunkRows: Float32Array;
  readonly #chunkGradients: Float32Array;
  readonly #article: Float32Array;
  readonly #articleGradient: Float32Array;
  readonly #layer: Float32Array;
  readonly #profile: Float32Array;
  readonly #sentencesMax: number;
  #hasProfile = false;

  constructor(shape: NetworkShape, sentencesMax: number) {
    const { dimension, attention, hidden } = shape;
    for (const [name, size] of Object.entries(shape)) {
      check(size > 0 && size % simdStep === 0, name, `a multiple of ${simdStep}`, size);
    }
    checkInteger('sentencesMax', sentencesMax, 1, 10_000);
    const work = 3 * sentencesMax * (dimension + attention + simdStep) + 8 * (dimension + hidden);
    const arena = new Arena(2 * networkSize(shape) + work + 8 * attention + 1024);
    this.#shape = shape;
    this.#sentencesMax = sentencesMax;
    this.#arena = arena;
    this.#numbers = split(shape, arena.take(networkSize(shape)));
    this.#gradients = split(shape, arena.take(networkSize(shape)));
    const pool = (level: 'sentence' | 'chunk') =>
      new Attention(arena, this.#numbers[level], this.#gradients[level], sentencesMax);
    this.#sentence = pool('sentence');
    this.#chunk = pool('chunk');
    this.#rows = arena.take(sentencesMax * dimension);
    this.#chunkRows = arena.take(sentencesMax * dimension);
    this.#chunkGradients = arena.take(sentencesMax * dimension);
    this.#article = arena.take(dimension);
    this.#articleGradient = arena.take(dimension);
    this.#profile = arena.take(dimension);
    this.#layer = arena.take(hidden);
  }

  /** All its numbers, to be read, stored and changed. */
  get parameters(): Float32Array {
    return this.#numbers.all;
  }

  /** What `learn` has added up since it was last cleared. */
  get gradients(): Float32Array {
    return this.#gradients.all;
  }

  /** Begins anew: small chances everywhere but in the last layer. */
  reset(random: Random): void {
    const { sentence, chunk, hidden, outBias, all } = this.#numbers;
    all.fill(0);
    const spread = (array: Float32Array, size: number) => {
      for (const at of array.keys()) array[at] = (2 * random() - 1) * size;
    };
    for (const level of [sentence, chunk]) {
      // Vectors have length 1 over many numbers: with less every sentence would count the same.
      spread(level.map, 1.7);
      spread(level.queryMap, 0.1);
      spread(level.query, 0.1);
    }
    spread(hidden, 0.5);
    outBias[0] = scoreUnknown;
  }

  /** Whose taste it is from now on; a profile of zeros is none. */
  ask(profile: Float32Array): void {
    this.#profile.set(profile);
    this.#hasProfile = profile.some((value) => value !== 0);
    for (const level of [this.#sentence, this.#chunk]) level.ask(this.#asked);
  }

  /** Adds to the gradients what the queries have learned since `ask`. */
  learnQueries(): void {
    for (const level of [this.#sentence, this.#chunk]) level.learnQuery(this.#asked);
  }

  /** What the article is worth. An empty one is pooled into zeros. */
  predict(input: NetworkInput, dropout?: Float32Array): number {
    const { dimension, hidden } = this.#shape;
    const count = this.#countOf(input);
    this.#rows.set(input.sentences.subarray(0, count * dimension));
    this.#article.fill(0);
    const chunks = this.#chunksOf(input);
    this.#chunkRows.fill(0, 0, chunks.length * dimension);
    for (const [at, { from, to }] of chunks.entries()) {
      const pooled = this.#chunkRows.subarray(at * dimension, (at + 1) * dimension);
      this.#sentence.forward(this.#rows, from, to, pooled);
    }
    if (chunks.length > 0) this.#chunk.forward(this.#chunkRows, 0, chunks.length, this.#article);
    this.#arena.products(this.#article, this.#numbers.hidden, dimension, this.#layer);
    let score = this.#numbers.outBias[0] as number;
    for (let at = 0; at < hidden; at += 1) {
      const value = (this.#layer[at] as number) + (this.#numbers.hiddenBias[at] as number);
      this.#layer[at] = Math.max(0, value) * (dropout?.[at] ?? 1);
      score += (this.#layer[at] as number) * (this.#numbers.out[at] as number);
    }
    return score;
  }

  /** How much each sentence counted in the last prediction; they add up to 1. */
  shares(input: NetworkInput): Float32Array {
    const shares = new Float32Array(this.#countOf(input));
    for (const [at, { from, to }] of this.#chunksOf(input).entries()) {
      for (let row = from; row < to; row += 1) {
        shares[row] = (this.#sentence.shares[row] as number) * (this.#chunk.shares[at] as number);
      }
    }
    return shares;
  }

  /** Adds the gradients of half the squared error, and gives the error. */
  learn(input: NetworkInput, score: number, dropout?: Float32Array): number {
    const { dimension, hidden } = this.#shape;
    const error = this.predict(input, dropout) - score;
    const { out, outBias, hiddenBias, hidden: hiddenGradient } = this.#gradients;
    outBias[0] = (outBias[0] as number) + error;
    this.#arena.addTo(out, this.#layer, error);
    // From here on what the layer should have been more.
    const layer = this.#layer;
    for (let at = 0; at < hidden; at += 1) {
      const slope = layer[at] === 0 ? 0 : (dropout?.[at] ?? 1);
      layer[at] = error * (this.#numbers.out[at] as number) * slope;
    }
    this.#arena.addTo(hiddenBias, layer, 1);
    this.#arena.addProducts(hiddenGradient, this.#article, dimension, layer);
    this.#articleGradient.fill(0);
    this.#arena.addProducts(this.#articleGradient, this.#numbers.hidden, dimension, layer);
    const chunks = this.#chunksOf(input);
    this.#chunkGradients.fill(0, 0, chunks.length * dimension);
    const whole = [this.#chunkRows, 0, chunks.length, this.#articleGradient] as const;
    if (chunks.length > 0) this.#chunk.backward(...whole, this.#chunkGradients);
    for (const [at, { from, to }] of chunks.entries()) {
      const gradient = this.#chunkGradients.subarray(at * dimension, (at + 1) * dimension);
      this.#sentence.backward(this.#rows, from, to, gradient, undefined);
    }
    return error;
  }

  get #asked(): Float32Array | undefined {
    return this.#hasProfile ? this.#profile : undefined;
  }

  #countOf({ sentences }: NetworkInput): number {
    return Math.min(this.#sentencesMax, sentences.length / this.#shape.dimension);
  }

  #chunksOf(input: NetworkInput): { readonly from: number; readonly to: number }[] {
    const count = this.#countOf(input);
    const starts = [...input.chunks].filter((start) => start < count);
    return starts.map((from, at) => ({ from, to: starts[at + 1] ?? count }));
  }
}

/** The parts of a network's numbers, in the order in which they are stored. */
function split({ dimension, attention, hidden }: NetworkShape, all: Float32Array): Numbers {
  let at = 0;
  const next = (length: number) => {
    at += length;
    return all.subarray(at - length, at);
  };
  const level = () => ({
    map: next(attention * dimension),
    bias: next(attention),
    queryMap: next(attention * dimension),
    queryBias: next(attention),
    query: next(attention),
  });
  return {
    all,
    sentence: level(),
    chunk: level(),
    hidden: next(hidden * dimension),
    hiddenBias: next(hidden),
    out: next(hidden),
    outBias: next(simdStep),
  };
}
