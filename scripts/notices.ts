import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = dirname(import.meta.dirname);
/** Licences that ask for no more than their notice. */
const permissive = /^(MIT|ISC|0BSD|BSD-[23]-Clause|Apache-2\.0|BlueOak-1\.0\.0|CC0-1\.0)$/;

interface Locked {
  readonly version?: string;
  readonly license?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
}

/** A dependency of what is published or run, with its licence. */
export interface Notice {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

/** All dependencies that are there at run time, as the lock file has them. */
export function noticesOf(lock: { readonly packages: Readonly<Record<string, Locked>> }): Notice[] {
  const found = Object.entries(lock.packages).flatMap(([path, { version, license, dev, link }]) => {
    const name = path.split('node_modules/').at(-1) ?? '';
    if (!path.includes('node_modules/') || dev === true || link === true) return [];
    return [{ name, version: String(version), license: String(license) }];
  });
  const unique = new Map(found.map((each) => [`${each.name}@${each.version}`, each]));
  return [...unique].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, notice]) => notice);
}

/** True if one of the licences to choose from is permissive. */
export function isPermissive(license: string): boolean {
  const choices = license.replaceAll(/[()]/g, '').split(' OR ');
  return choices.some((each) => permissive.test(each));
}

/** The page of all notices. */
export function noticePage(notices: readonly Notice[]): string {
  const rows = notices.map(({ name, version, license }) => `| ${name} | ${version} | ${license} |`);
  return `# Licences of dependencies

Our packages hold no code of others: npm installs these beside them, each with its licence text
in its folder below \`node_modules\`. An image of a service that you give away must keep those
texts. \`node scripts/notices.ts\` writes this page from the lock file.

| package | version | licence |
| --- | --- | --- |
${rows.join('\n')}
`;
}

if (import.meta.main) {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  writeFileSync(join(root, 'docs', 'third-party.md'), noticePage(noticesOf(lock)));
}
