import type { Json } from '../base/json.ts';
import type { StoreChange } from '../store/store.ts';
import { type Decision, foreignForm, type TimedReading } from './store-link.ts';

export interface SharedGateStats {
  readonly kind: 'shared-gate';
  readonly name: string;
  readonly limit: number;
  /** Callers of this process that are inside. */
  readonly inside: number;
  readonly waiting: number;
  /** Permits that this process has claimed. */
  readonly held: number;
  /** Times the store was asked. */
  readonly trips: number;
  readonly refused: number;
  /** Losses of all permits of this process, since it could not renew them. */
  readonly lost: number;
  readonly reachable: boolean;
}

/** A permit of a SharedGate; disposing it passes it on. */
export interface SharedPermit extends Disposable {
  /** Aborts with `GATE_LOST` before another process can have the permit. */
  readonly signal: AbortSignal;
}

/** One process in the record of a shared gate. */
interface Party {
  /** Permits that it has claimed. */
  readonly held: number;
  /** Permits that it could use, at most the limit. */
  readonly demand: number;
  /** Store time at which it last got a permit, or came. */
  readonly since: number;
}

/** The claims of this process, until they are lost. */
export class Membership {
  readonly id: string;
  readonly end: AbortController = new AbortController();
  inside = 0;
  /** Permits that are surely claimed; lowered as soon as a visit begins to give some back. */
  held = 0;
  share = 0;
  /** The demand in the store's record. */
  demand = 0;
  isJoined = false;
  /** True while a commit may be under way whose answer has not come. */
  isInDoubt = false;
  /** Local time until which the claims hold, and at which they were last confirmed. */
  until: number = Infinity;
  renewedAt: number = -Infinity;

  constructor(id: string) {
    this.id = id;
  }
}

/** The state of this process, as a visit needs it. */
export interface GateVisit {
  readonly name: string;
  readonly id: string;
  readonly limit: number;
  readonly ttlMs: number;
  /** Permits in use here, none of which can be given back. */
  readonly inside: number;
  readonly demand: number;
  /** True if the record had this process: if it is not there any more, its permits are lost. */
  readonly isMember: boolean;
  /** True to extend its life, and to make commits void whose outcome is not known. */
  readonly renews: boolean;
  /** Other processes to ask after, in the order in which they were read. */
  readonly known: readonly string[];
}

/** The state of the gate after a visit. */
export interface GateView {
  readonly isLost: boolean;
  /** False if the record has nothing of this process. */
  readonly isMember: boolean;
  readonly held: number;
  readonly demand: number;
  /** Permits that are this process's share; it gives back what it holds beyond. */
  readonly share: number;
  readonly others: readonly string[];
}

/** The permits of all processes. */
export const gateRecord = (name: string): string => `gate/${name}`;
/** Expires when its process has not renewed it: then its permits are free. */
export const partyRecord = (name: string, id: string): string => `gate/${name}/${id}`;

/**
 * Claims permits and gives them back, removes processes that have expired, and renews this one.
 * Each commit checks that this process's own record is as it was read, so that a late one cannot
 * undo a newer one.
 */
export function decideGate(visit: GateVisit, seen: TimedReading): Decision<GateView> {
  const { name, id, limit, ttlMs, inside, isMember, known } = visit;
  const [all, own, ...members] = seen.records;
  const parties = new Map(Object.entries((all?.value ?? {}) as unknown as Record<string, Party>));
  for (const { held, demand, since } of parties.values()) {
    const isKnown = [held, demand, since].every((each) => typeof each === 'number');
    if (!isKnown) throw foreignForm('a gate');
  }
  const mine = parties.get(id);
  if (isMember && (own === undefined || mine === undefined)) {
    const none = { isMember: false, held: 0, demand: 0, share: 0, others: [] };
    return { value: { isLost: true, ...none } };
  }
  const dead = known.filter((each, at) => members[at] === undefined && parties.delete(each));
  parties.delete(id);
  const others = [...parties.keys()];
  const free = [...parties.values()].reduce((left, party) => left - party.held, limit);
  const demand = Math.min(limit, visit.demand);
  const arrived = mine ?? { held: 0, demand, since: seen.now };
  parties.set(id, { ...arrived, demand });
  const share = shareOf(id, parties, limit);
  const held = Math.max(inside, Math.min(share, free));
  const since = held > arrived.held ? seen.now : arrived.since;
  const isGone = held === 0 && demand === 0;
  const value = { isLost: false, isMember: !isGone, held, demand, share, others };
  if (isGone) parties.delete(id);
  else parties.set(id, { held, demand, since });
  if (isGone && own === undefined && mine === undefined) return { value };
  const isSame = mine?.held === held && mine.demand === demand && dead.length === 0;
  if (isSame && !visit.renews && !isGone) return { value };
  const ownName = partyRecord(name, id);
  const ifVersion = own?.version ?? 0;
  const changes: StoreChange[] = [
    isGone ? { name: ownName, ifVersion } : { name: ownName, ifVersion, value: 1, ttlMs },
  ];
  if (!isSame || isGone) {
    const record = parties.size > 0 ? Object.fromEntries(parties) : undefined;
    const change = { name: gateRecord(name), ifVersion: all?.version ?? 0 };
    changes.push({ ...change, value: record as unknown as Json | undefined });
    const checked = { ifVersion: 0, checkOnly: true };
    for (const each of dead) changes.push({ name: partyRecord(name, each), ...checked });
  }
  return { value, changes };
}

/**
 * The share of one process: small demands are met first, and large ones get equal parts of the
 * rest. With fewer permits than processes, one each goes to those that hold none and have waited
 * longest, so that all have their turn.
 */
function shareOf(id: string, parties: ReadonlyMap<string, Party>, limit: number): number {
  const wanting = [...parties].filter(([, { demand }]) => demand > 0);
  const order = ([a]: [string, Party], [b]: [string, Party]) => (a < b ? -1 : 1);
  if (wanting.length > limit) {
    const byAge = wanting.sort((a, b) => {
      return a[1].held - b[1].held || a[1].since - b[1].since || order(a, b);
    });
    return byAge.slice(0, limit).some(([each]) => each === id) ? 1 : 0;
  }
  let left = limit;
  const byDemand = wanting.sort((a, b) => a[1].demand - b[1].demand || order(a, b));
  for (const [at, [each, { demand }]] of byDemand.entries()) {
    const share = Math.min(demand, Math.floor(left / (byDemand.length - at)));
    if (each === id) return share;
    left -= share;
  }
  return 0;
}
