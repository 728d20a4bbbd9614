// The program of one contender's process: opens the contender, then performs each run that the
// parent asks for. Started by hand, for a profile, it performs each run once, in its quick form.
import { once } from 'node:events';
import { benches } from './benches.ts';

const [benchName = '', contender = ''] = process.argv.slice(2);
const bench = await benches[benchName]?.();
const open = bench?.contenders[contender];
if (open === undefined) throw new Error(`no contender ${contender} in ${benchName}`);

process.once('disconnect', () => process.exit());
const measure = await open();
if (process.send === undefined) {
  for (const { name } of bench?.runs ?? []) console.log(name, await measure(name, true));
  process.exit();
}
process.send({});
for (;;) {
  const [{ run, quick }] = (await once(process, 'message')) as [{ run: string; quick: boolean }];
  process.send(await measure(run, quick));
}
