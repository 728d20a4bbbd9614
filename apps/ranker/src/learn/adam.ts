const rate = 0.003;
const decayFirst = 0.9;
const decaySecond = 0.999;
const least = 1e-8;

/** Adam with weights that fade by themselves; it forgets its past with itself. */
export class Adam {
  readonly #parameters: Float32Array;
  readonly #gradients: Float32Array;
  readonly #first: Float32Array;
  readonly #second: Float32Array;
  readonly #weightDecay: number;
  #steps = 0;

  constructor(parameters: Float32Array, gradients: Float32Array, weightDecay: number) {
    this.#parameters = parameters;
    this.#gradients = gradients;
    this.#first = new Float32Array(parameters.length);
    this.#second = new Float32Array(parameters.length);
    this.#weightDecay = weightDecay;
  }

  /** One step against the gradients, which are a sum over so many samples; clears them. */
  step(samples: number): void {
    this.#steps += 1;
    const [parameters, gradients] = [this.#parameters, this.#gradients];
    const [first, second] = [this.#first, this.#second];
    const size = rate / (1 - decayFirst ** this.#steps);
    const scale = 1 / (1 - decaySecond ** this.#steps);
    const fade = 1 - rate * this.#weightDecay;
    for (let at = 0; at < parameters.length; at += 1) {
      const gradient = (gradients[at] as number) / samples;
      const mean = decayFirst * (first[at] as number) + (1 - decayFirst) * gradient;
      const square = decaySecond * (second[at] as number) + (1 - decaySecond) * gradient * gradient;
      first[at] = mean;
      second[at] = square;
      const step = (size * mean) / (Math.sqrt(square * scale) + least);
      parameters[at] = (parameters[at] as number) * fade - step;
    }
    gradients.fill(0);
  }
}
