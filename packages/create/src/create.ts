#!/usr/bin/env node
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';

const usage = `usage: npm create spillway <folder>
Makes a new service in the folder, which must be empty or new: a route, a lane, a pool worker,
a call to another service, tests and a Dockerfile.`;

/** Prints what is wrong, and how to do it right. */
function fail(message: string): void {
  console.error(`create-spillway: ${message}\n\n${usage}`);
  process.exitCode = 2;
}

/** A name that npm takes for a package, and Docker for an image. */
const nameRule = /^[a-z0-9][a-z0-9._-]{0,99}$/;

/** The files of the new service; in a published package they are beside this file. */
const template: string =
  [import.meta.dirname, resolve(import.meta.dirname, '..')]
    .map((folder) => join(folder, 'template'))
    .find((folder) => existsSync(folder)) ?? '';

function create(folder: string): void {
  const name = basename(folder);
  cpSync(template, folder, { recursive: true });
  // npm leaves files of the names .gitignore and .npmignore out of what it publishes.
  renameSync(join(folder, 'gitignore'), join(folder, '.gitignore'));
  for (const file of ['package.json', 'README.md']) {
    const path = join(folder, file);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('my-service', name));
  }
  const there = relative(process.cwd(), folder);
  const steps = ['npm install', 'npm test', 'npm start'];
  if (there !== '') steps.unshift(`cd ${there}`);
  console.log(`Made ${name}. Next:\n\n${steps.map((step) => `  ${step}`).join('\n')}`);
}

const words = process.argv.slice(2);
const [word = '.'] = words;
const folder = resolve(word);
if (word === '--help' || word === '-h') {
  console.log(usage);
} else if (words.length !== 1 || word.startsWith('-')) {
  fail('name one folder');
} else if (!nameRule.test(basename(folder))) {
  const rule = 'small letters, digits, dots, - and _, with a letter or digit first, at most 100';
  fail(`${JSON.stringify(basename(folder))} is no name for a package: ${rule}`);
} else if (existsSync(folder) && !isEmpty(folder)) {
  fail(`${folder} is there already, and is not an empty folder`);
} else {
  create(folder);
}

function isEmpty(path: string): boolean {
  try {
    return readdirSync(path).every((name) => name === '.git');
  } catch {
    return false;
  }
}
