#!/usr/bin/env node
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, join, relative, resolve } from 'node:path';

const usage = `usage: npm create spillway <folder>
Makes a new service in the folder, which must be empty or new: a route, a lane, a pool worker,
a call to another service, tests and a Dockerfile.`;

/** Prints what is wrong, and how to do it right. */
function fail(message: string): void {
  console.error(`create-spillway: ${message}\n\n${usage}`);
  process.exitCode = 2;
}

/** Names that npm refuses, and the name of the package that the service depends on. */
const taken = new Set([...builtinModules, 'node_modules', 'favicon.ico', 'spillway']);

/** Says why npm or Docker would refuse the name; undefined if both take it. */
function faultOf(name: string): string | undefined {
  if (taken.has(name)) return 'it is taken by Node, npm or Spillway';
  if (/^[a-z0-9][a-z0-9._-]{0,99}$/.test(name)) return undefined;
  return 'use at most 100 small letters, digits, dots, - and _, first a letter or digit';
}

/** The folder with the files of a new service; in a published package it is beside this file. */
const template: string =
  [import.meta.dirname, resolve(import.meta.dirname, '..')]
    .map((folder) => join(folder, 'template'))
    .find((folder) => existsSync(folder)) ?? '';

function create(folder: string): void {
  const name = basename(folder);
  mkdirSync(folder, { recursive: true });
  if (readdirSync(folder).some((entry) => entry !== '.git')) {
    fail(`${folder} is there already, and is not an empty folder`);
    return;
  }
  cpSync(template, folder, { recursive: true });
  // npm does not publish files with the names .gitignore and .npmignore.
  renameSync(join(folder, 'gitignore'), join(folder, '.gitignore'));
  for (const file of ['package.json', 'README.md']) {
    const path = join(folder, file);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('my-service', name));
  }
  const path = relative(process.cwd(), folder);
  const steps = ['npm install', 'npm test', 'npm start'];
  if (path !== '') steps.unshift(`cd ${quoted(path)}`);
  console.log(`Made ${name}. Next:\n\n${steps.map((step) => `  ${step}`).join('\n')}`);
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 18)) {
    console.error(`\nIt runs on Node 22.18 or newer; this is Node ${process.versions.node}.`);
  }
}

/** A path in quotes if a shell would not read it as one word. */
function quoted(path: string): string {
  if (/^[\w.][\w./\\-]*$/.test(path)) return path;
  if (process.platform === 'win32') return `"${path}"`;
  return `'./${path.replaceAll("'", "'\\''")}'`;
}

/** Says why the folder cannot be made, by the code of the system's error. */
function systemFault(folder: string, error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const reasons: Readonly<Record<string, string>> = {
    EEXIST: 'a file has this name',
    ENOTDIR: 'a file is in its path',
    ENOENT: 'a link to nothing is in its path',
    EACCES: 'you have no right to write there',
    EROFS: 'the disk is read-only',
    ENOSPC: 'the disk is full',
  };
  return `${folder} cannot be made: ${reasons[code] ?? message}`;
}

const words = process.argv.slice(2);
const [word = '.'] = words;
const folder = resolve(word);
const fault = faultOf(basename(folder));
if (word === '--help' || word === '-h') {
  console.log(usage);
} else if (words.length !== 1 || word === '' || word.startsWith('-')) {
  fail('name one folder');
} else if (fault !== undefined) {
  fail(`${JSON.stringify(basename(folder))} is no name for a package: ${fault}`);
} else {
  try {
    create(folder);
  } catch (error) {
    fail(systemFault(folder, error));
  }
}
