/** Tells whoever listens that what a user sees has changed. */
export class UserChanges {
  readonly #listeners = new Set<(userId: string) => void>();

  tell(userId: string): void {
    for (const listener of this.#listeners) listener(userId);
  }

  /** Calls back until it is disposed. */
  listen(listener: (userId: string) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}
