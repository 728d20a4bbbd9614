/** What resolves the promise made last with {@link captureResolve}: to be taken at once. */
export let lastResolve: (value: unknown) => void;

/** For `new Promise`: one function for all, since one for each was a tenth of a waiter's cost. */
export function captureResolve(resolve: (value: never) => void): void {
  lastResolve = resolve as (value: unknown) => void;
}
