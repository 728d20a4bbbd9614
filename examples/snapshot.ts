// A task sees one version of the shared state from start to end, even if a new one is published.
import { Snapshot } from 'spillway';

const model = new Snapshot(
  { weights: Float32Array.of(1, 2) },
  { release: (_, version) => console.log(`version ${version} released`) },
);

async function score(text: string): Promise<number> {
  using view = model.acquire();
  const [first = 0] = view.value.weights;
  await new Promise((resolve) => setImmediate(resolve));
  const [, second = 0] = view.value.weights;
  console.log(`"${text}" scored with version ${view.version}`);
  return text.length * first + second;
}

const early = score('early bird');
model.publish({ weights: Float32Array.of(10, 20) });
const late = score('late bird');
console.log(model.stats.held);
console.log(await Promise.all([early, late]));
console.log(model.stats.held);
