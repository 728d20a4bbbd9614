import { readFileSync } from 'node:fs';

/** The text of a file for browsers: beside this file, and beside the bundle when published. */
export function browserFile(name: string): string {
  return readFileSync(new URL(`./browser/${name}`, import.meta.url), 'utf8');
}
