import { type Clock, type Lane, type Random, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** Shape of service times around their mean. */
export type Shape = 'constant' | 'exponential' | 'bimodal';

/** State of a dependency: at its best, ten times slower, hanging, or failing at once. */
export type Health = 'well' | 'slow' | 'hanging' | 'broken';

export interface DependencyOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Calls that it works on at once; others wait in it, first come, first served. */
  readonly places: number;
  readonly serviceMs: number;
  readonly shape: Shape;
  /** Beyond this many calls inside, each takes longer in proportion. @default never */
  readonly knee?: number | undefined;
  /** Whether it stops working on a call whose caller has gone. @default false */
  readonly hearsAborts?: boolean | undefined;
}

/** A service that others call: places, a queue without bound, and service times by chance. */
export class Dependency {
  health: Health = 'well';
  readonly #options: DependencyOptions;
  #busy = 0;
  #waiting: (() => void)[] = [];
  readonly #hanging: Set<() => void> = new Set();

  constructor(options: DependencyOptions) {
    this.#options = options;
  }

  /** Calls that it works on or that wait in it. */
  get inside(): number {
    return this.#busy + this.#waiting.length;
  }

  turn(health: Health): void {
    this.health = health;
    if (health === 'hanging') return;
    for (const begin of this.#hanging) begin();
    this.#hanging.clear();
  }

  call(signal: AbortSignal): Promise<void> {
    if (this.health === 'broken') return Promise.reject(new Error('the dependency is down'));
    return new Promise<void>((resolve, reject) => {
      const begin = () => this.#work(signal, resolve);
      const start = () => {
        if (this.#busy < this.#options.places) begin();
        else this.#waiting.push(begin);
      };
      signal.addEventListener('abort', () => {
        reject(signal.reason);
        this.#hanging.delete(start);
        if (!this.#options.hearsAborts) return;
        this.#waiting = this.#waiting.filter((other) => other !== begin);
      });
      if (this.health === 'hanging') this.#hanging.add(start);
      else start();
    });
  }

  #work(signal: AbortSignal, done: () => void): void {
    const { clock, knee = Infinity, hearsAborts } = this.#options;
    this.#busy += 1;
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      this.#busy -= 1;
      done();
      this.#waiting.shift()?.();
    };
    const crowding = Math.max(1, this.#busy / knee);
    const slowness = this.health === 'slow' ? 10 : 1;
    const timer = clock.after(this.#serviceMs() * crowding * slowness, end);
    if (!hearsAborts) return;
    signal.addEventListener('abort', () => {
      timer[Symbol.dispose]();
      end();
    });
  }

  #serviceMs(): number {
    const { random, serviceMs, shape } = this.#options;
    if (shape === 'constant') return serviceMs;
    if (shape === 'exponential') return -Math.log(1 - random()) * serviceMs;
    return random() < 0.9 ? serviceMs / 2 : serviceMs * 5.5;
  }
}

export interface Play {
  /** Makes the lane under test. */
  readonly lane: (clock: Clock, random: Random) => Lane;
  readonly dependency: Omit<DependencyOptions, 'clock' | 'random'>;
  readonly arrivalsPerSecond: number;
  /** Milliseconds after which a client is gone. */
  readonly patienceMs: number;
  /** Clients that leave sooner: their share, and after how long. They are not counted. */
  readonly hurried?: { readonly share: number; readonly patienceMs: number } | undefined;
  readonly seed: number;
  /** Seconds that are played before anything is counted. */
  readonly warmUpS: number;
  readonly seconds: number;
  /** Health by second of the play, warm-up included. */
  readonly events?: readonly { readonly atS: number; readonly health: Health }[] | undefined;
}

export interface Played {
  readonly arrived: number;
  /** Answers that came while their client waited. */
  readonly good: number;
  readonly begun: number;
  readonly refused: number;
  /** Good answers in each second of the play, warm-up included. */
  readonly goodBySecond: readonly number[];
  /** Milliseconds from arrival to a good answer: 99 of 100 came sooner. */
  readonly p99Ms: number;
  readonly limitMean: number;
}

/** Plays clients that come by chance, each once, whatever became of the others. */
export async function play(options: Play): Promise<Played> {
  const clock = new VirtualClock();
  const random = seededRandom(options.seed);
  const dependency = new Dependency({ ...options.dependency, clock, random });
  const lane = options.lane(clock, random);
  const seconds = options.warmUpS + options.seconds;
  const fromMs = options.warmUpS * 1_000;
  const goodBySecond = new Array<number>(seconds).fill(0);
  const latencies: number[] = [];
  let arrived = 0;
  let begun = 0;
  let refused = 0;
  let sizes = 0;
  const visit = async (): Promise<void> => {
    const cameAt = clock.now();
    const { hurried } = options;
    const isHurried = hurried !== undefined && random() < hurried.share;
    const counts = cameAt >= fromMs && !isHurried;
    if (counts) arrived += 1;
    const client = new AbortController();
    const patienceMs = isHurried ? hurried.patienceMs : options.patienceMs;
    using _patience = clock.after(patienceMs, () => client.abort());
    const task = (signal: AbortSignal) => {
      if (counts) begun += 1;
      return dependency.call(signal);
    };
    try {
      await lane.run(task, client);
      const second = Math.floor(clock.now() / 1_000);
      if (second < seconds && !isHurried) goodBySecond[second] = (goodBySecond[second] ?? 0) + 1;
      if (counts) latencies.push(clock.now() - cameAt);
    } catch (error) {
      const { code } = error as { code?: unknown };
      if (counts && typeof code === 'string' && code.startsWith('LANE')) refused += 1;
    }
  };
  const arrive = (): void => {
    if (clock.now() >= seconds * 1_000) return;
    void visit();
    const gapMs = (-Math.log(1 - random()) * 1_000) / options.arrivalsPerSecond;
    clock.after(gapMs, arrive);
  };
  clock.after(0, arrive);
  for (const { atS, health } of options.events ?? []) {
    clock.after(atS * 1_000, () => dependency.turn(health));
  }
  for (let second = 0; second < seconds; second += 1) {
    await clock.advance(1_000);
    if (second >= options.warmUpS) sizes += lane.stats.limit / options.seconds;
  }
  latencies.sort((a, b) => a - b);
  const good = goodBySecond.slice(options.warmUpS).reduce((sum, each) => sum + each, 0);
  const p99Ms = latencies[Math.floor(latencies.length * 0.99)] ?? 0;
  return { arrived, good, begun, refused, goodBySecond, p99Ms, limitMean: sizes };
}
