import { AssertionError } from 'node:assert';
import type { FastifyInstance } from 'fastify';
import { Breaker, Bucket, Gate, Lane, type Panel, Pool } from 'spillway';
import { httpError } from '../base/errors.ts';

const names = [
  'resize',
  'pause',
  'resume',
  'recycle',
  'open',
  'close',
  'release',
  'drain',
] as const;
type ActionName = (typeof names)[number];

/** A change that an operator made; also the body of `POST /-/actions`. */
export interface OperatorAction {
  readonly action: ActionName;
  /** Name of the lane, gate, bucket, pool or breaker; none for `drain`. */
  readonly part?: string | undefined;
  /** New limit, rate or workers for `resize`; one worker's index for `recycle`, or none for all. */
  readonly value?: number | undefined;
  /** Person or program that asks, for the log. */
  readonly by: string;
}

const word = { type: 'string', minLength: 1, maxLength: 200 } as const;
const actionSchema = {
  type: 'object',
  required: ['action', 'by'],
  additionalProperties: false,
  properties: {
    action: { type: 'string', enum: names },
    part: word,
    value: { type: 'number', minimum: 0 },
    by: word,
  },
} as const;

export interface ActionsOptions {
  readonly panel: Panel;
  /** Lanes that routes enter. */
  readonly lanes: () => Iterable<Lane>;
  /** Called with each action that was done. */
  readonly tell: (action: OperatorAction) => void;
}

const kinds = [Breaker, Bucket, Gate, Lane, Pool];

/** The changes that an operator can make in a running service. */
export class Actions {
  readonly #options: ActionsOptions;
  /** Breakers that an operator holds open or closed. */
  readonly #held = new Map<Breaker, Disposable>();

  constructor(options: ActionsOptions) {
    this.#options = options;
  }

  /** Names of the parts that can be changed; one that two parts have is not among them. */
  get changeable(): readonly string[] {
    const byName = Map.groupBy(this.#named(), ([name]) => name);
    return [...byName].flatMap(([name, all]) => {
      const parts = new Set(all.map(([, part]) => part));
      const isOne = parts.size === 1 && kinds.some((kind) => all[0]?.[1] instanceof kind);
      return isOne ? [name] : [];
    });
  }

  /** Adds `POST /-/actions`, which changes a part and logs who did it. */
  declare(app: FastifyInstance): void {
    const schema = { body: actionSchema };
    app.post<{ Body: OperatorAction }>('/-/actions', { schema }, async ({ body }) => {
      this.#do(body);
      this.#options.tell(body);
      return { ok: true };
    });
  }

  #do(action: OperatorAction): void {
    if (action.action === 'drain') {
      const isWhole = action.part === undefined && action.value === undefined;
      if (!isWhole) throw refusal('drain is for the whole process: it takes no part and no value');
      drain();
      return;
    }
    const { part: name = '' } = action;
    const all = [...this.#named()].filter(([each]) => each === name);
    const [part, ...others] = new Set(all.map(([, each]) => each));
    if (part === undefined) throw httpError('NOT_FOUND', `no part has the name ${name}`);
    if (others.length > 0) throw refusal(`${others.length + 1} parts have the name ${name}`);
    try {
      const isDone = this.#change(part, action);
      if (!isDone) throw refusal(`${name} cannot ${action.action}`);
    } catch (error) {
      throw error instanceof AssertionError ? refusal(error.message) : error;
    }
  }

  /**
   * Parts by their names: those of the panel; parts inside them, named by their place as the
   * console shows them; and the lanes that routes enter, with their parents.
   */
  *#named(): Generator<[name: string, part: unknown]> {
    const { panel, lanes } = this.#options;
    for (const [shown, part] of panel.parts) {
      // The console knows a lane by its own name, whatever the panel calls it.
      if (!(part instanceof Lane)) yield [shown, part];
      const { name, parts } = Object(part);
      if (typeof name === 'string') yield [name, part];
      for (const [place, inner] of Object.entries(parts ?? {})) {
        yield [`${shown} / ${place}`, inner];
      }
    }
    for (const entered of lanes()) {
      for (let lane: Lane | undefined = entered; lane; lane = lane.parent) yield [lane.name, lane];
    }
  }

  /** Makes the change; false for a part that has no such change. */
  #change(part: unknown, { action, value }: OperatorAction): boolean {
    if (part instanceof Breaker) return this.#changeBreaker(part, action);
    if (part instanceof Bucket) {
      if (action !== 'resize') return false;
      part.resize({ ratePerSecond: value as number });
      return true;
    }
    const canPause = part instanceof Lane || part instanceof Gate || part instanceof Pool;
    if (!canPause) return false;
    if (action === 'pause') part.pause();
    else if (action === 'resume') part.resume();
    else if (action === 'recycle' && part instanceof Pool) part.recycle(value);
    else if (action === 'resize') part.resize(value as number);
    else return false;
    return true;
  }

  #changeBreaker(breaker: Breaker, action: ActionName): boolean {
    const isHold = action === 'open' || action === 'close';
    if (!(isHold || action === 'release')) return false;
    this.#held.get(breaker)?.[Symbol.dispose]();
    this.#held.delete(breaker);
    if (isHold) this.#held.set(breaker, breaker.hold(action === 'open' ? 'open' : 'closed'));
    return true;
  }
}

/** Stops the process as its supervisor would: it finishes what it has begun. */
function drain(): void {
  if (process.listenerCount('SIGTERM') === 0) {
    throw refusal('this process does not drain on SIGTERM: it would end at once');
  }
  // A signal is delivered on a later turn of the loop: the answer leaves first.
  process.kill(process.pid, 'SIGTERM');
}

function refusal(message: string): Error {
  return httpError('ACTION_REFUSED', message);
}
