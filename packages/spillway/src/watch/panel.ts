import { check } from '../base/check.ts';
import { plain } from './plain.ts';

/** A part with numbers: a lane, a pool, a bucket, a breaker, a lease, a backlog. */
export interface Watched {
  readonly stats: unknown;
  /** Parts inside it that an operator may change, by their paths in its stats. */
  readonly parts?: Readonly<Record<string, Watched>> | undefined;
}

/** The numbers of one part, as plain data. */
export interface Reading {
  /** The `kind` of the stats; `other` for stats without one, `failed` for a part that threw. */
  readonly kind: string;
  readonly stats: unknown;
}

const partsMax = 1_000;

/** The list of parts that an operator can watch: `panel.watch('search', lane);` */
export class Panel {
  readonly #parts = new Map<string, Watched>();

  /** Shows the part under this name until the result is disposed. */
  watch(name: string, part: Watched): Disposable {
    check(typeof name === 'string' && name !== '', 'name', 'a word', name);
    check(!this.#parts.has(name), 'name', 'one that no other part has', name);
    check(Object(part) === part && 'stats' in part, 'part', 'something with stats', part);
    check(this.#parts.size < partsMax, 'part', `one of at most ${partsMax}`, name);
    this.#parts.set(name, part);
    return {
      [Symbol.dispose]: () => {
        if (this.#parts.get(name) === part) this.#parts.delete(name);
      },
    };
  }

  /** {@link watch}, unless the part or its name is shown already. */
  add(name: string, part: Watched): void {
    const isShown = this.#parts.has(name) || [...this.#parts.values()].includes(part);
    if (!isShown) this.watch(name, part);
  }

  /** The parts by name. */
  get parts(): ReadonlyMap<string, Watched> {
    return this.#parts;
  }

  /** The stats of every part now; a part that throws does not hide the others. */
  read(): ReadonlyMap<string, Reading> {
    return new Map([...this.#parts].map(([name, part]) => [name, reading(part)]));
  }
}

function reading(part: Watched): Reading {
  try {
    const stats = plain(part.stats);
    const { kind }: { readonly kind?: unknown } = Object(stats);
    return { kind: typeof kind === 'string' ? kind : 'other', stats };
  } catch (error) {
    return { kind: 'failed', stats: { error: plain(error) } };
  }
}
