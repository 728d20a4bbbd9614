import { seededRandom } from 'spillway';
import type { EmbeddedDocument, ModelName, RatedArticle } from '../src/learn/document.ts';
import type { StoredTaste, TastesOptions } from '../src/learn/tastes.ts';
import { wordsOf } from '../src/learn/words.ts';

/** Vectors made up for tests: small, and without any text. */
export const model: ModelName = { id: 'made-up', precision: 'exact', dimension: 32 };
export const now = 1_700_000_000_000;

/** Makes vectors and articles that are the same for the same seed. */
export class VectorScene {
  readonly random: () => number;
  readonly #topics: readonly Float32Array[];

  constructor(seed: number, topics = 6) {
    this.random = seededRandom(seed);
    this.#topics = Array.from({ length: topics }, () => this.direction());
  }

  /** A direction by chance, or one near to another. */
  direction(near?: Float32Array, noise = 1): Float32Array {
    const vector = new Float32Array(model.dimension).map((_, at) => {
      const chance = this.random() + this.random() + this.random() - 1.5;
      return (near?.[at] ?? 0) + noise * chance * 0.35;
    });
    const norm = Math.hypot(...vector);
    return vector.map((value) => value / norm);
  }

  document(sentences: readonly Float32Array[], mean?: Float32Array): EmbeddedDocument {
    const all = new Float32Array(sentences.length * model.dimension);
    const sum = new Float32Array(model.dimension);
    for (const [at, sentence] of sentences.entries()) {
      all.set(sentence, at * model.dimension);
      for (const [place, value] of sentence.entries()) sum[place] = (sum[place] as number) + value;
    }
    const norm = Math.hypot(...sum) || 1;
    const middle = mean ?? sum.map((value) => value / norm);
    const words = wordsOf({ title: '', text: '' });
    return { model, length: 300, sentences: all, mean: middle, title: middle, words };
  }

  /** A rated article about one of the topics; the first topics are liked most. */
  rated(number: number, noise = 0.5): RatedArticle {
    const count = this.#topics.length;
    const about = number % count;
    const topic = this.#topics[about] as Float32Array;
    const sentences = Array.from({ length: 5 }, () => this.direction(topic, noise));
    const score = 10 - (9 * about) / (count - 1);
    const [source, publishedAt] = [`host${number % 4}`, now - number * 3_600_000];
    const document = this.document(sentences);
    return { id: `article ${number}`, source, publishedAt, document, score, ratedAt: now };
  }

  all(count: number, noise?: number): RatedArticle[] {
    return Array.from({ length: count }, (_, number) => this.rated(number, noise));
  }
}

/** Stored tastes in memory, for tests without a database. */
export class StoredTastes {
  readonly all: Map<string, Omit<StoredTaste, 'version' | 'versionMax'>> = new Map();
  #last = 0;

  readonly load: TastesOptions['load'] = async (user) => {
    this.#last += 1_000;
    const { rated, choice } = this.all.get(user) ?? { rated: [] };
    return { rated, choice, version: this.#last - 1_000, versionMax: this.#last };
  };
}
