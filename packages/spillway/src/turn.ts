/**
 * Promises that wake each other run before any I/O, however long the chain. So each turn of the
 * event loop has a budget of grants; what is over it is put off until the loop has turned.
 */
const grantsMax = 256;
const turnMsMax = 2;

let granted = 0;
let since = 0;
let probing = false;
let deferred: (() => void)[] = [];

/**
 * True while this turn may grant one more. A probe is left for the next turn of the loop once in
 * 256 grants or 2 ms; only when that much again passes before the probe runs is it a chain.
 */
export function mayGrant(now: number = since): boolean {
  granted += 1;
  if (granted < grantsMax && now - since < turnMsMax) return true;
  if (probing) return false;
  probe();
  since = now;
  return true;
}

/** Runs the callback once the event loop has turned; in the order of asking. */
export function nextTurn(callback: () => void): void {
  deferred.push(callback);
  if (!probing) probe();
}

/** How many callbacks wait for the event loop to turn. */
export function turnsPending(): number {
  return deferred.length;
}

function probe(): void {
  probing = true;
  granted = 0;
  setImmediate(() => {
    probing = false;
    granted = 0;
    const due = deferred;
    deferred = [];
    for (const callback of due) callback();
  });
}
