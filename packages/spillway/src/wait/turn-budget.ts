import { subscribe } from 'node:diagnostics_channel';
import { performance } from 'node:perf_hooks';
// Not the global: fake timers take its place, and the turns that parts wait for would never come.
import { setImmediate } from 'node:timers';
import { systemClock } from '../base/clock.ts';

// Keeps the event loop turning, for all parts of the process together. Promises that wake each
// other all run before any I/O, however long the chain. So:
//
// 1. Each turn of the loop has a budget of grants and of time; what exceeds it waits for the next
//    turn (`mayGrant`, `nextTurn`).
// 2. Work that computes begins one piece at a time, with turns in between (`takeTurn`).
// 3. While connections wait in the kernel, nothing new begins until they are accepted.

/** Grants in one turn; with 256 of them, a pass that needs no waiting cost 5 % more. */
const grantsMax = 1_024;
const turnMsMax = 2;
/** Grants that callers without a timestamp count as, since no time bounds their turn. */
const untimedCost = 4;

/** The loop counts as behind when connections come this many ms apart with no sleep in between. */
const behindMs = 2;
/** Idle ms that count as sleep: less is the time that the loop takes to find work. */
const sleepMsMin = 0.1;
/** Turns for which grants are held, at most, while connections are accepted. */
const holdTurnsMax = 16;
/** CPU ms for which they are held, at most: turns that take longer do work outside of lanes. */
const holdMsMax = 20;
/**
 * Turns of the loop between two pieces of work that compute. libuv accepts one connection in a
 * turn: with one turn for each piece, new connections would wait behind all of them.
 */
const turnsBetween = 16;
/**
 * Milliseconds for which such work waits, at most, while each turn brings a connection. Clients
 * that give up connect again; without this, connections stayed in the kernel for as long as clients
 * wait, so that all were accepted too late, and none was refused in time (2026-11).
 */
const computeWaitMsMax = 100;

let granted = 0;
/** Time of the first grant with a timestamp since `watchTurn`; NaN before. */
let grantsSince = Number.NaN;
/** True while a callback is set that notices the next turn. */
let isWatching = false;
let deferred: (() => void)[] = [];

/**
 * True while this turn may grant one more. Once the budget is spent, a callback is set that notices
 * the next turn. If the budget is spent a second time before it runs, promises are waking each
 * other, and the rest has to wait.
 */
export function mayGrant(now?: number): boolean {
  if (holdTurns > 0) return false;
  granted += now === undefined ? untimedCost : 1;
  if (now !== undefined && Number.isNaN(grantsSince)) grantsSince = now;
  const isLong = now !== undefined && now - grantsSince >= turnMsMax;
  if (granted < grantsMax && !isLong) return true;
  if (isWatching) return false;
  watchTurn();
  grantsSince = now ?? Number.NaN;
  return true;
}

/** Runs the callback once the event loop has turned; in the order of asking. */
export function nextTurn(callback: () => void): void {
  deferred.push(callback);
  if (!isWatching) watchTurn();
}

let turnsLeft = 0;
/** Moment from which on connections put off no work that computes. */
let turnUntil = 0;
let connections = 0;
let connectionsBefore = 0;
let forTurn: (() => void)[] = [];

/** True if work that computes began a few turns ago, so that no other may begin now. */
export function isTurnTaken(): boolean {
  return turnsLeft > 0;
}

/** Notes that work begins that computes: other such work has to wait some turns. */
export function takeTurn(): void {
  if (turnsLeft === 0) setImmediate(countDown);
  turnsLeft = turnsBetween;
  turnUntil = systemClock.now() + computeWaitMsMax;
}

/** Runs the callback once work that computes may begin again; in the order of asking. */
export function whenTurnIsFree(callback: () => void): void {
  forTurn.push(callback);
}

function countDown(): void {
  const isAccepting = connections !== connectionsBefore && systemClock.now() < turnUntil;
  connectionsBefore = connections;
  if (turnsLeft > 1 || !isAccepting) turnsLeft -= 1;
  if (turnsLeft > 0) {
    setImmediate(countDown);
    return;
  }
  const due = forTurn;
  forTurn = [];
  runAll(due);
}

/** Moment of the last connection, and the idle time of the loop by then. */
let connectedAt = Infinity;
let connectedIdleMs = 0;
let hasConnected = false;
/** Turns for which grants are held, at most, from now on. */
let holdTurns = 0;
/** CPU times at which this hold began, and from which on the next may begin. */
let heldAt = 0;
let holdAgainAt = 0;

/**
 * Notes a new connection. libuv accepts one in a turn, so with work in each turn the others wait in
 * the kernel, where no lane sees them. If the loop never slept since the last one, there may be
 * more: then grants are held until a turn brings none. They are held for half of the time at most,
 * or clients that connect again and again would stop parts that have no sockets.
 */
subscribe('net.server.socket', () => {
  const now = systemClock.now();
  const { idleTime } = performance.nodeTiming;
  const isSleepless = idleTime - connectedIdleMs < sleepMsMin;
  const isBehind = isSleepless && now - connectedAt >= behindMs;
  connectedAt = now;
  connectedIdleMs = idleTime;
  hasConnected = true;
  connections += 1;
  if (!isBehind || holdTurns > 0 || cpuMs() < holdAgainAt) return;
  holdTurns = holdTurnsMax;
  heldAt = cpuMs();
  setImmediate(goOnHolding);
});

/** CPU time of this thread, so that time in which the machine runs others does not count. */
function cpuMs(): number {
  // Node before 22.19 knows only the time of all threads.
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1_000;
}

function goOnHolding(): void {
  const now = cpuMs();
  const heldMs = now - heldAt;
  holdTurns = hasConnected && heldMs < holdMsMax ? holdTurns - 1 : 0;
  hasConnected = false;
  if (holdTurns > 0) {
    setImmediate(goOnHolding);
    return;
  }
  holdAgainAt = now + heldMs;
  // Connections of the next turn start no hold, so that the held grants are given first.
  connectedAt = Infinity;
  setImmediate(() => {
    connectedAt = systemClock.now();
  });
}

/** The number of callbacks that wait for the event loop to turn. */
export function turnsPending(): number {
  return deferred.length + forTurn.length;
}

function watchTurn(): void {
  isWatching = true;
  granted = 0;
  // A turn that somebody else asked for is a turn, too. With the old time, a long chain of them,
  // such as a message to thousands of sockets a few at a time, would hold grants until its end.
  grantsSince = Number.NaN;
  setImmediate(() => {
    isWatching = false;
    granted = 0;
    const due = deferred;
    deferred = [];
    runAll(due);
  });
}

/** Runs the callbacks. If one throws, those after it run first in the next turn. */
function runAll(due: readonly (() => void)[]): void {
  let begun = 0;
  try {
    for (const callback of due) {
      begun += 1;
      callback();
    }
  } finally {
    if (begun < due.length) {
      deferred = [...due.slice(begun), ...deferred];
      if (!isWatching) watchTurn();
    }
  }
}
