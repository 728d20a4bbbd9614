import { checkInteger } from 'spillway/internal';

/** What came from outside, with what it takes to ask whether it is still true. */
export interface CachedAnswer {
  readonly value: unknown;
  /** How much room it takes, in bytes, about. */
  readonly bytes: number;
  readonly etag: string | undefined;
  /** When it was last known to be true, on the clock of whoever asks. */
  readonly checkedAt: number;
}

export interface AnswerCacheOptions {
  /** How many answers are kept. An integer from 1. */
  readonly answersMax: number;
  /** How many bytes all of them may have together. An integer from 1. */
  readonly bytesMax: number;
}

/** Answers by their question; whichever nobody asked for the longest goes first. */
export class AnswerCache {
  readonly #options: AnswerCacheOptions;
  readonly #answers = new Map<string, CachedAnswer>();
  #bytes = 0;

  constructor(options: AnswerCacheOptions) {
    checkInteger('answersMax', options.answersMax, 1);
    checkInteger('bytesMax', options.bytesMax, 1);
    this.#options = options;
  }

  get stats(): { readonly answers: number; readonly bytes: number } {
    return { answers: this.#answers.size, bytes: this.#bytes };
  }

  get(key: string): CachedAnswer | undefined {
    const answer = this.#answers.get(key);
    if (answer === undefined) return undefined;
    this.#answers.delete(key);
    this.#answers.set(key, answer);
    return answer;
  }

  set(key: string, answer: CachedAnswer): void {
    this.#delete(key);
    this.#answers.set(key, answer);
    this.#bytes += answer.bytes;
    const { answersMax, bytesMax } = this.#options;
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= answersMax && this.#bytes <= bytesMax) return;
      this.#delete(oldest);
    }
  }

  #delete(key: string): void {
    const answer = this.#answers.get(key);
    if (answer === undefined) return;
    this.#answers.delete(key);
    this.#bytes -= answer.bytes;
  }
}
