import type { Manifest, MergedProduct, TableFile } from './manifest.ts';
import type { RawEntry } from './raw-file.ts';

/** The product that something is of. */
export interface ProductName {
  readonly exchange: string;
  readonly product: string;
}

/** The next state of a table while it is made; the one before stays as it is. */
export class TableDraft {
  readonly before: Manifest;
  /** By product. */
  readonly #files: Map<string, readonly TableFile[]>;
  readonly #products: Map<string, MergedProduct>;
  /** Days that were written, by product and date. */
  readonly written: Set<string> = new Set();

  constructor(before: Manifest) {
    this.before = before;
    this.#files = Map.groupBy(before.files, keyOf);
    this.#products = new Map(before.products.map((one) => [keyOf(one), one]));
  }

  /** What the files that are made now belong to. */
  get version(): number {
    return this.before.version + 1;
  }

  filesOf(name: ProductName): readonly TableFile[] {
    return this.#files.get(keyOf(name)) ?? [];
  }

  product(name: ProductName): MergedProduct | undefined {
    return this.#products.get(keyOf(name));
  }

  /** Forgets all that is known of the product. */
  drop(name: ProductName): void {
    this.#files.delete(keyOf(name));
    this.#products.delete(keyOf(name));
  }

  replace(name: ProductName, gone: readonly TableFile[], made: readonly TableFile[]): void {
    const left = this.filesOf(name).filter((file) => !gone.includes(file));
    this.#files.set(keyOf(name), [...left, ...made]);
    for (const file of [...gone, ...made]) this.written.add(`${keyOf(name)} ${file.date}`);
  }

  /** Notes that the entries are in. */
  advance(name: ProductName, entries: readonly RawEntry[]): void {
    const { exchange, product } = name;
    const generation = entries[0]?.generation ?? 1;
    const { mergedTo = 0, read = 0 } = this.product(name) ?? {};
    this.#products.set(keyOf(name), {
      exchange,
      product,
      generation,
      mergedTo: Math.max(mergedTo, ...entries.map(({ commit }) => commit)),
      read: read + entries.reduce((sum, { trades }) => sum + trades, 0),
      rows: this.filesOf(name).reduce((sum, { rows }) => sum + rows, 0),
    });
  }

  finish(fence: number): Omit<Manifest, 'version'> {
    const products = [...this.#products.values()].sort(byProduct);
    const files = products.flatMap((name) => {
      return this.filesOf(name).toSorted((a, b) => {
        return a.date === b.date ? a.firstId - b.firstId : a.date < b.date ? -1 : 1;
      });
    });
    return { fence, products, files };
  }
}

/** The same for everything of one product; no exchange has a name with a line break in it. */
export function keyOf({ exchange, product }: ProductName): string {
  return `${exchange}\n${product}`;
}

function byProduct(a: ProductName, b: ProductName): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}
