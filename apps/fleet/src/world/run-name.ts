import { createHash } from 'node:crypto';

/** Name of a run in the log: the start of its branch, and a piece of its id's digest. */
export function runName(id: string, newTag: string): string {
  const digest = createHash('md5').update(id).digest('hex');
  return `${newTag.slice(0, 23)}-${digest.slice(0, 7)}`;
}
