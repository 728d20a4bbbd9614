import { blockAction } from './actions.ts';
import { Changes } from './changes.ts';
import type { World } from './world.ts';

const messageMax = 500;

/** Gives a worker, by its short name, no more tasks; the message tells its owner why. */
export function blockWorker(
  world: World,
  name: string,
  username: string,
  message: string,
): Changes {
  const changes = new Changes();
  const now = world.clock.now();
  world.blocked.set(name, { message: message.slice(0, messageMax), last_updated: now });
  changes.blocked.add(name);
  changes.actions.push(blockAction(name, username, now, 'blocked'));
  return changes;
}

export function unblockWorker(world: World, name: string, username: string): Changes {
  const changes = new Changes();
  if (!world.blocked.delete(name)) return changes;
  changes.blocked.add(name);
  changes.actions.push(blockAction(name, username, world.clock.now(), 'unblocked'));
  return changes;
}
