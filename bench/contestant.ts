// The program of one contender's process: opens it, then does each run it is asked for.
import { once } from 'node:events';
import { benches } from './benches.ts';

const [benchName = '', contender = ''] = process.argv.slice(2);
const bench = await benches[benchName]?.();
const open = bench?.contenders[contender];
if (open === undefined) throw new Error(`no contender ${contender} in ${benchName}`);

process.once('disconnect', () => process.exit());
const measure = await open();
process.send?.({});
for (;;) {
  const [{ run, quick }] = (await once(process, 'message')) as [{ run: string; quick: boolean }];
  process.send?.(await measure(run, quick));
}
