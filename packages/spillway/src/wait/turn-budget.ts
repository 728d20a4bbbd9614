import { subscribe } from 'node:diagnostics_channel';
import { performance } from 'node:perf_hooks';
// Not the global: fake timers take its place, and the turns that parts wait for would never come.
import { setImmediate } from 'node:timers';
import { systemClock } from '../base/clock.ts';

// The event loop's fairness budget. Promises that wake each other run before any I/O, however long
// the chain. So each turn of the loop has a budget of grants, shared by all parts of the process;
// a grant beyond it waits until the loop has turned.

/** The grants of one turn; with 256 of them, a pass that needs no waiting cost 5 % more. */
const grantsMax = 1_024;
const turnMsMax = 2;
/** Callers that pass no timestamp cost four grants each, as nothing else bounds their turn. */
const untimedCost = 4;

/** Milliseconds without sleep from one new connection to the next that make the loop behind. */
const behindMs = 2;
/** Milliseconds from which on the loop has slept: it also takes a moment to find work. */
const sleepMsMin = 0.1;
/** Turns for which grants are held at most while connections are accepted. */
const acceptTurnsMax = 16;
/** Milliseconds of CPU until they go on: turns that take so long do work that no lane holds. */
const acceptMsMax = 20;

let granted = 0;
/** The time from which this turn's 2 ms count; NaN until its first grant that knows the time. */
let since = Number.NaN;
let probing = false;
/**
 * Turns of the loop between two pieces of work that compute. libuv accepts one connection in a
 * turn: with one turn for each piece, new connections would wait behind all of them.
 */
const turnsBetween = 16;
/**
 * Milliseconds for which such work waits at most while each turn brings a connection. Clients that
 * give up come back with a new one: once they waited in the kernel for as long as clients wait,
 * all were accepted too late, and none was refused in time to keep its connection (2026-11).
 */
const turnMsLongest = 100;
let turnsLeft = 0;
let turnUntil = 0;
let connections = 0;
let connectionsSeen = 0;
let forTurn: (() => void)[] = [];
let deferred: (() => void)[] = [];

/**
 * True while this turn may grant one more. A probe is left for the next turn of the loop once the
 * grants or 2 ms are spent; only when that much again passes before the probe runs is it a chain.
 */
export function mayGrant(now?: number): boolean {
  if (acceptTurns > 0) return false;
  granted += now === undefined ? untimedCost : 1;
  if (now !== undefined && Number.isNaN(since)) since = now;
  const isLong = now !== undefined && now - since >= turnMsMax;
  if (granted < grantsMax && !isLong) return true;
  if (probing) return false;
  probe();
  since = now ?? Number.NaN;
  return true;
}

/** Runs the callback once the event loop has turned; in the order of asking. */
export function nextTurn(callback: () => void): void {
  deferred.push(callback);
  if (!probing) probe();
}

/** True if work that computes has just begun, and what came meanwhile was not read yet. */
export function isTurnTaken(): boolean {
  return turnsLeft > 0;
}

/** Notes that work begins that computes: other such work is left for later turns. */
export function takeTurn(): void {
  if (turnsLeft === 0) setImmediate(countDown);
  turnsLeft = turnsBetween;
  turnUntil = systemClock.now() + turnMsLongest;
}

/** Runs the callback once work that computes may begin again; in the order of asking. */
export function whenTurnIsFree(callback: () => void): void {
  forTurn.push(callback);
}

function countDown(): void {
  const isAccepting = connections !== connectionsSeen && systemClock.now() < turnUntil;
  connectionsSeen = connections;
  if (turnsLeft > 1 || !isAccepting) turnsLeft -= 1;
  if (turnsLeft > 0) {
    setImmediate(countDown);
    return;
  }
  const due = forTurn;
  forTurn = [];
  runAll(due);
}

let connectedAt = Infinity;
let connectedIdleMs = 0;
let hasConnected = false;
let acceptTurns = 0;
let heldAt = 0;
/** The CPU time from which on grants may be held again. */
let restedAt = 0;

/**
 * Notes a new connection. libuv accepts one in a turn, so with work in each turn the others wait in
 * the kernel, where no lane sees them. If the loop was busy all the time since the last one, there
 * may be more: then nothing new begins until a turn brought none. Grants are held for half of the
 * time at most, or clients that connect again and again would stop parts that have no sockets.
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
  if (!isBehind || acceptTurns > 0 || cpuMs() < restedAt) return;
  acceptTurns = acceptTurnsMax;
  heldAt = cpuMs();
  setImmediate(acceptMore);
});

/** CPU time of this thread: while the machine runs others, nothing is held that could go on. */
function cpuMs(): number {
  // Node before 22.19 only knows the time of all threads.
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1_000;
}

function acceptMore(): void {
  const now = cpuMs();
  const heldMs = now - heldAt;
  acceptTurns = hasConnected && heldMs < acceptMsMax ? acceptTurns - 1 : 0;
  hasConnected = false;
  if (acceptTurns > 0) {
    setImmediate(acceptMore);
    return;
  }
  restedAt = now + heldMs;
  // Those who were held have a turn to begin, whoever comes in it.
  connectedAt = Infinity;
  setImmediate(() => {
    connectedAt = systemClock.now();
  });
}

/** The number of callbacks that wait for the event loop to turn. */
export function turnsPending(): number {
  return deferred.length + forTurn.length;
}

function probe(): void {
  probing = true;
  granted = 0;
  // Turns that others asked for are turns too: with the old time, a long chain of them, such as
  // a message to thousands of sockets a few at a time, would keep everybody waiting to its end.
  since = Number.NaN;
  setImmediate(() => {
    probing = false;
    granted = 0;
    const due = deferred;
    deferred = [];
    runAll(due);
  });
}

/** Runs the callbacks; those behind one that throws are left for the next turn, before others. */
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
      if (!probing) probe();
    }
  }
}
