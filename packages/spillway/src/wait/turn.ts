/**
 * Promises that wake each other run before any I/O, however long the chain. So each turn of the
 * event loop has a budget of grants; what is over it is put off until the loop has turned. A turn
 * costs some microseconds: with 256 grants in each, a pass that needs no waiting was 5 % dearer.
 */
const grantsMax = 1_024;
const turnMsMax = 2;
/** Who does not know the time has a quarter of the grants, as nothing else bounds its turn. */
const untimedCost = 4;

let granted = 0;
let since = 0;
let probing = false;
let deferred: (() => void)[] = [];

/**
 * True while this turn may grant one more. A probe is left for the next turn of the loop once the
 * grants or 2 ms are spent; only when that much again passes before the probe runs is it a chain.
 */
export function mayGrant(now?: number): boolean {
  granted += now === undefined ? untimedCost : 1;
  const isLong = now !== undefined && now - since >= turnMsMax;
  if (granted < grantsMax && !isLong) return true;
  if (probing) return false;
  probe();
  since = now ?? since;
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
