import {
  type Clock,
  type Document,
  deadline,
  Gate,
  type Json,
  SpillwayError,
  type Store,
} from 'spillway';
import { jsonText } from 'spillway/internal';

/** What a state holds at one moment, as JSON; versions grow. */
export interface Sighting {
  readonly text: string;
  readonly version: number;
}

/** Where the truth is when others may change it too. */
export interface StateSource {
  read(signal?: AbortSignal): Promise<Sighting>;
  /** Changes it in one atomic step, and resolves once that is durable. */
  update(change: (text: string) => string, signal?: AbortSignal): Promise<Sighting>;
}

/** The value in a document; each new one that this process sees gets the next version. */
export class DocumentSource<T> implements StateSource {
  readonly #document: Document<T>;
  #seen: Sighting = { text: '', version: 0 };

  constructor(document: Document<T>) {
    this.#document = document;
  }

  async read(signal?: AbortSignal): Promise<Sighting> {
    const before = this.#seen;
    const value = await this.#document.read(signal);
    // What was seen meanwhile may be newer than what was read.
    return this.#seen === before ? this.#see(jsonText(value as Json)) : this.#seen;
  }

  async update(change: (text: string) => string, signal?: AbortSignal): Promise<Sighting> {
    let text = '';
    await this.#document.transaction((draft) => {
      text = change(jsonText(draft as Json));
      return JSON.parse(text);
    }, signal);
    return this.#see(text);
  }

  #see(text: string): Sighting {
    if (text !== this.#seen.text) this.#seen = { text, version: this.#seen.version + 1 };
    return this.#seen;
  }
}

const triesMax = 100;
const updateMsMax = 5_000;
const queueMax = 1_000;

/** The value in a record of a store, which all processes change by its version. */
export class StoreSource implements StateSource {
  readonly #store: Store;
  readonly #name: string;
  readonly #initial: string;
  readonly #clock: Clock;
  /** Updates of one process would only undo each other's tries. */
  readonly #gate = new Gate({ limit: 1, queueMax });

  constructor(store: Store, name: string, initial: string, clock: Clock) {
    this.#store = store;
    this.#name = name;
    this.#initial = initial;
    this.#clock = clock;
  }

  async read(signal?: AbortSignal): Promise<Sighting> {
    using limit = deadline(this.#clock, updateMsMax, signal);
    return await this.#read(limit.signal);
  }

  async update(change: (text: string) => string, signal?: AbortSignal): Promise<Sighting> {
    using limit = deadline(this.#clock, updateMsMax, signal);
    using _turn = await this.#gate.enter(limit);
    for (let tries = 0; tries < triesMax; tries += 1) {
      const { text: before, version: ifVersion } = await this.#read(limit.signal);
      const text = change(before);
      if (text === before && ifVersion > 0) return { text, version: ifVersion };
      const changes = [{ name: this.#name, ifVersion, value: JSON.parse(text) }];
      const done = await this.#store.commit(changes, { signal: limit.signal });
      if (done !== undefined) return { text, version: done.version };
    }
    const message = `${this.#name}: others changed it ${triesMax} times meanwhile`;
    throw new SpillwayError('STORE_UNREACHABLE', message, { retryAfterMs: 1_000 });
  }

  async #read(signal: AbortSignal): Promise<Sighting> {
    const [record] = (await this.#store.read([this.#name], { signal })).records;
    if (record === undefined) return { text: this.#initial, version: 0 };
    return { text: jsonText(record.value), version: record.version };
  }
}
