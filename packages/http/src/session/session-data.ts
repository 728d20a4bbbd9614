import { randomBytes } from 'node:crypto';
import type { Json } from 'spillway';
import { check, jsonText } from 'spillway/internal';

/** A message for the next page that the user sees. */
export interface FlashMessage {
  /** What it is, for its looks: `info`, `error`. */
  readonly kind: string;
  readonly text: string;
}

/** All that a session's cookie says. Times are in milliseconds since 1970. */
export interface SessionState {
  readonly id: string;
  readonly startedAt: number;
  readonly usedAt: number;
  readonly isRemembered: boolean;
  readonly data: Readonly<Record<string, Json>>;
  readonly flash: readonly FlashMessage[];
}

/**
 * What is known of the one who sends a request, kept in a cookie that only the server can write,
 * though its owner can read it. Give the type of its data by {@link sessionOf}.
 */
export class Session<Data extends object = Record<string, Json>> {
  readonly #now: () => number;
  readonly #checkSize: (state: SessionState) => void;
  /** Replaced whole, and only by one that fits into the cookie. */
  #state: SessionState | undefined;
  #isChanged = false;
  #isSent = false;

  constructor(
    state: SessionState | undefined,
    now: () => number,
    checkSize: (state: SessionState) => void,
  ) {
    this.#state = state;
    this.#now = now;
    this.#checkSize = checkSize;
  }

  /** A secret that is its own until it is regenerated; undefined as long as it is empty. */
  get id(): string | undefined {
    return this.#state?.id;
  }

  get<Key extends keyof Data & string>(key: Key): Data[Key] | undefined {
    const data = this.#state?.data;
    return data !== undefined && Object.hasOwn(data, key) ? (data[key] as Data[Key]) : undefined;
  }

  /** Keeps a copy of any JSON value; throws `SESSION_TOO_LARGE`, and then all is as before. */
  set<Key extends keyof Data & string>(key: Key, value: Data[Key]): void {
    const copy = JSON.parse(jsonText(value as Json)) as Json;
    const state = this.#begun();
    const data = Object.entries(state.data).filter(([name]) => name !== key);
    this.#replace({ ...state, data: Object.fromEntries([...data, [key, copy]]) });
  }

  delete(key: keyof Data & string): void {
    if (this.#state === undefined) return;
    const data = Object.entries(this.#state.data).filter(([name]) => name !== key);
    this.#replace({ ...this.#state, data: Object.fromEntries(data) });
  }

  /** Ends it: its cookie is removed. */
  clear(): void {
    if (this.#state !== undefined) this.#replace(undefined);
  }

  /** Begins it anew with the same data. Call it at every log-in, or another may know its id. */
  regenerate(): void {
    this.#replace({ ...this.#begun(), ...begin(this.#now()) });
  }

  /** Whether it outlives the browser. */
  remember(isRemembered: boolean): void {
    this.#replace({ ...this.#begun(), isRemembered });
  }

  /** Leaves a message for the next {@link takeFlash}, in this request or a later one. */
  flash({ kind, text }: FlashMessage): void {
    const state = this.#begun();
    this.#replace({ ...state, flash: [...state.flash, { kind, text }] });
  }

  /** The messages that were left, once. */
  takeFlash(): readonly FlashMessage[] {
    if (this.#state === undefined || this.#state.flash.length === 0) return [];
    const { flash } = this.#state;
    this.#replace({ ...this.#state, flash: [] });
    return flash;
  }

  /** What is to be sent; from now on nothing can be changed. */
  close(): { readonly state: SessionState | undefined; readonly isChanged: boolean } {
    this.#isSent = true;
    return { state: this.#state, isChanged: this.#isChanged };
  }

  #begun(): SessionState {
    const empty = { isRemembered: false, data: {}, flash: [] };
    return this.#state ?? { ...begin(this.#now()), ...empty };
  }

  #replace(state: SessionState | undefined): void {
    check(!this.#isSent, 'session', 'changed before the answer is sent', 'a change after it');
    if (state !== undefined) this.#checkSize(state);
    this.#state = state;
    this.#isChanged = true;
  }
}

function begin(now: number): Pick<SessionState, 'id' | 'startedAt' | 'usedAt'> {
  return { id: randomBytes(16).toString('base64url'), startedAt: now, usedAt: now };
}
