import { check } from 'spillway/internal';
import { kindOf, type PartKind } from '../operator/part-kind.ts';
import { plain } from './plain.ts';

/** Anything that tells its numbers: a lane, a pool, a bucket, a breaker, a lease, a backlog. */
export interface Watched {
  readonly stats: unknown;
}

/** The numbers of one part, as plain data. */
export interface Reading {
  readonly kind: PartKind | 'failed' | 'other';
  readonly stats: unknown;
}

const partsMax = 1_000;

/** The list of what an operator can watch: `panel.watch('search', lane);` */
export class Panel {
  readonly #parts = new Map<string, Watched>();

  /** Shows the part from now on, by a name of its own, until the result is disposed. */
  watch(name: string, part: Watched): Disposable {
    check(typeof name === 'string' && name !== '', 'name', 'a word', name);
    check(!this.#parts.has(name), 'name', 'one that no other part has', name);
    check(typeof part === 'object' && 'stats' in part, 'part', 'something with stats', part);
    check(this.#parts.size < partsMax, 'part', `one of at most ${partsMax}`, name);
    this.#parts.set(name, part);
    return {
      [Symbol.dispose]: () => {
        if (this.#parts.get(name) === part) this.#parts.delete(name);
      },
    };
  }

  /** Whether something is shown by this name, or this itself by another. */
  shows(part: Watched & { readonly name: string }): boolean {
    return this.#parts.has(part.name) || [...this.#parts.values()].includes(part);
  }

  /** What every part says now; one that fails to say anything hides no other. */
  read(): ReadonlyMap<string, Reading> {
    return new Map([...this.#parts].map(([name, part]) => [name, reading(part)]));
  }
}

function reading(part: Watched): Reading {
  try {
    const { stats } = part;
    return { kind: kindOf(stats) ?? 'other', stats: plain(stats) };
  } catch (error) {
    return { kind: 'failed', stats: { error: plain(error) } };
  }
}
