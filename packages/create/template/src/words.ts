import { type Clock, Lane, type Outbound, outbound, SpillwayError } from 'spillway';

/** Gives the status and the text of a page. */
export type FetchPage = (name: string, signal: AbortSignal) => Promise<Page>;

export interface Page {
  readonly status: number;
  readonly text: string;
}

export interface WordsOptions {
  readonly fetchPage: FetchPage;
  readonly count: (text: string, options: { readonly signal: AbortSignal }) => Promise<number>;
  readonly clock?: Clock;
}

/** Counts the words of pages on another site. */
export class Words {
  /** Upper bounds: the lane finds by itself how many calls the other site can serve at once. */
  readonly lane: Lane;
  /** Calls to the other site: a rate, a breaker, retries, and a time limit for each attempt. */
  readonly pages: Outbound;
  readonly #options: WordsOptions;

  constructor(options: WordsOptions) {
    const { clock } = options;
    this.#options = options;
    this.lane = new Lane({ name: 'words', limit: 64, queueMax: 200, deadlineMs: 2_000, clock });
    this.pages = outbound({ rate: 100, attemptMs: 800, deadlineMs: 1_800, clock });
  }

  /** Counts the words of one page; the signal cancels waiting and work. */
  async of(name: string, signal: AbortSignal): Promise<number> {
    const { fetchPage, count } = this.#options;
    const page = await this.pages.run((attempt) => fetchPage(name, attempt), { signal });
    if (page.status === 404) {
      throw new SpillwayError(
        { code: 'NO_PAGE', status: 404, retryable: false },
        `no page ${name}`,
      );
    }
    if (page.status !== 200) throw new SpillwayError('UPSTREAM_UNREACHABLE', `got ${page.status}`);
    return await count(page.text, { signal });
  }
}
