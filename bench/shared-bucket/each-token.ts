import type { Store } from 'spillway';
import type { Take } from '../shared-bucket.ts';

/** The least that a limiter without batches does: one write for each token, whatever the count. */
export function openTake(store: Store): Take {
  let taken = 0;
  return () => {
    taken += 1;
    return store.commit([{ name: 'bench', value: taken }]);
  };
}
