import { seededRandom } from 'spillway';
import { Adam } from './adam.ts';
import { Network, type NetworkShape, networkSize } from './network.ts';
import { networkInput, type PackedArticles } from './packed-articles.ts';
import { sharedFloats } from './rated-rows.ts';

export interface NetworkPlan {
  readonly shape: NetworkShape;
  /** The reader's profile, made of the articles to learn from alone. */
  readonly profile: Float32Array;
  /** The articles to learn from; some of them are kept back to know when to stop. */
  readonly rows: readonly number[];
  /** How often all are seen, at most. */
  readonly epochsMax: number;
  readonly seed: number;
}

export interface TrainedNetwork {
  /** In shared memory. */
  readonly parameters: Float32Array;
  readonly epochs: number;
}

const batchSize = 16;
/** So long without a better error on what was kept back, and it is over: in epochs and in steps. */
const patienceEpochs = 8;
const patienceSteps = 60;
/** One in so many is kept back. */
const keptBack = 6;
const weightDecay = 0.05;
const dropoutRate = 0.1;

/** The longest article among these, in sentences; at least one. */
export function sentencesIn({ sentenceStarts }: PackedArticles): number {
  let most = 1;
  for (let row = 0; row + 1 < sentenceStarts.length; row += 1) {
    const length = (sentenceStarts[row + 1] as number) - (sentenceStarts[row] as number);
    most = Math.max(most, length);
  }
  return most;
}

/**
 * Trains a fresh network and keeps the numbers that did best on articles kept back. Gives the
 * epoch's number after each article, so that whoever drives it can stop or rest there.
 */
export function* trainNetwork(
  packed: PackedArticles,
  plan: NetworkPlan,
): Generator<number, TrainedNetwork> {
  const { shape, profile, rows, epochsMax, seed } = plan;
  const random = seededRandom(seed);
  const network = new Network(shape, sentencesIn(packed));
  network.reset(random);
  const shuffled = shuffle([...rows], random);
  const kept = shuffled.filter((_, at) => at % keptBack === 0 && rows.length > keptBack);
  const learned = shuffled.filter((row) => !kept.includes(row));
  const judges = kept.length > 0 ? kept : learned;
  const adam = new Adam(network.parameters, network.gradients, weightDecay);
  const best = { parameters: sharedFloats(networkSize(shape)), error: Infinity, epoch: 0 };
  const dropout = new Float32Array(shape.hidden);
  const batches = Math.ceil(learned.length / batchSize);
  const patience = Math.max(patienceEpochs, patienceSteps / batches);
  let epoch = 0;
  for (; epoch < epochsMax && epoch - best.epoch < patience; epoch += 1) {
    shuffle(learned, random);
    for (let from = 0; from < learned.length; from += batchSize) {
      const batch = learned.slice(from, from + batchSize);
      network.ask(profile);
      for (const row of batch) {
        for (const at of dropout.keys()) {
          dropout[at] = random() < dropoutRate ? 0 : 1 / (1 - dropoutRate);
        }
        network.learn(networkInput(packed, row), packed.scores[row] as number, dropout);
        yield epoch;
      }
      network.learnQueries();
      adam.step(batch.length);
    }
    network.ask(profile);
    let error = 0;
    for (const row of judges) {
      error += (network.predict(networkInput(packed, row)) - (packed.scores[row] as number)) ** 2;
      yield epoch;
    }
    if (error < best.error) {
      best.parameters.set(network.parameters);
      best.error = error;
      best.epoch = epoch;
    }
  }
  return { parameters: best.parameters, epochs: epoch };
}

function shuffle(items: number[], random: () => number): number[] {
  for (let at = items.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [items[at], items[other]] = [items[other] as number, items[at] as number];
  }
  return items;
}
