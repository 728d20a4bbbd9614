#!/usr/bin/env node
// `npx spillway advise <address>`: which lane of a running service is too small, and by how much.
import { parseArgs } from 'node:util';
import { systemClock } from './base/clock.ts';
import { pause } from './wait/wait-queue.ts';
import { adviseLane, type LaneFigures } from './watch/advice.ts';

const usage = `usage: spillway advise <address> [--seconds 5]
Looks at a service for some seconds, and says which lane is too small, too large or starved.
  address    its operator port (operator.remote), like http://10.0.0.7:9000
The token of that port is taken from SPILLWAY_OPERATOR_TOKEN.
For a service on this machine: npx console advise --data <folder>`;

interface LaneStats extends Omit<LaneFigures, 'refused'> {
  readonly refused: Readonly<Record<string, number>>;
}

async function readLanes(address: string): Promise<ReadonlyMap<string, LaneStats>> {
  const token = process.env.SPILLWAY_OPERATOR_TOKEN;
  const headers: Record<string, string> = {};
  if (token !== undefined) headers.authorization = `Bearer ${token}`;
  const answer = await fetch(new URL('/-/stats', address), { headers }).catch(({ cause }) => {
    throw new Error(`${address} cannot be asked`, { cause });
  });
  if (!answer.ok) throw new Error(`${address} answered ${answer.status}`);
  const { parts } = (await answer.json()) as { readonly parts: unknown };
  const lanes = new Map<string, LaneStats>();
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { kind, name, limit } = value as { kind?: unknown; name?: unknown; limit?: unknown };
    if (kind === 'lane' && limit !== undefined) lanes.set(String(name), value as LaneStats);
    for (const inner of Object.values(value)) walk(inner);
  };
  walk(parts);
  return lanes;
}

function refusals({ refused }: LaneStats): number {
  return Object.values(refused).reduce((sum, count) => sum + count, 0);
}

async function advise(address: string, seconds: number): Promise<string[]> {
  const before = await readLanes(address);
  await pause(systemClock, seconds * 1_000);
  const after = await readLanes(address);
  return [...after].flatMap(([name, lane]) => {
    const was = before.get(name);
    if (was === undefined) return [];
    const arrived = lane.arrived - was.arrived;
    const refused = refusals(lane) - refusals(was);
    const advice = adviseLane({ ...lane, arrived, refused });
    if (advice === undefined) return [];
    const share = refused > 0 ? `, ${refused} of ${arrived} calls refused` : '';
    return [`${name} is ${advice.finding}${share}\n  ${advice.text}`];
  });
}

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seconds: { type: 'string', default: '5' }, help: { type: 'boolean' } },
  });
  const [command, address = ''] = positionals;
  const seconds = Number(values.seconds);
  const isRight = command === 'advise' && URL.canParse(address) && seconds > 0;
  if (values.help === true) console.log(usage);
  else if (!isRight) {
    console.error(usage);
    process.exitCode = 2;
  } else {
    const lines = await advise(address, seconds);
    console.log(lines.length > 0 ? lines.join('\n') : 'All calm: nothing to change.');
  }
} catch (error) {
  const { message, cause } = error as Error;
  console.error(`spillway: ${message}${cause instanceof Error ? `: ${cause.message}` : ''}`);
  process.exitCode = 1;
}
