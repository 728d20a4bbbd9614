import { randomBytes } from 'node:crypto';
import { UsageError } from './errors.ts';

export interface PasswordOptions {
  /** Read the first line of standard input. */
  readonly passwordStdin?: boolean | undefined;
}

const lengthMax = 1_024;

/** A password from standard input, from `FLEET_PASSWORD`, or typed twice without being shown. */
export async function readPassword({ passwordStdin }: PasswordOptions): Promise<string> {
  if (passwordStdin) return firstLine();
  const { FLEET_PASSWORD } = process.env;
  if (FLEET_PASSWORD !== undefined) return FLEET_PASSWORD;
  if (!process.stdin.isTTY) {
    throw new UsageError(
      'no password: type it at a terminal, send it with --password-stdin, or set FLEET_PASSWORD',
    );
  }
  const password = await typed('Password: ');
  if ((await typed('Once more: ')) === password) return password;
  throw new UsageError('the two passwords differ; try again');
}

/** A password that nobody can guess. */
export function randomPassword(): string {
  return randomBytes(15).toString('base64url');
}

async function firstLine(): Promise<string> {
  let text = '';
  for await (const chunk of process.stdin) {
    text += chunk;
    if (text.includes('\n') || text.length > lengthMax) break;
  }
  const [line = ''] = text.split(/\r?\n/);
  if (line !== '') return line;
  throw new UsageError('--password-stdin: standard input must begin with the password');
}

async function typed(question: string): Promise<string> {
  const { stdin, stderr } = process;
  stderr.write(question);
  stdin.setRawMode(true);
  let text = '';
  try {
    for await (const key of keys()) {
      if (key === '\u0003') throw new UsageError('no password was given');
      if (key === '\r' || key === '\n' || key === '\u0004') return text;
      text = key === '\u007f' || key === '\b' ? text.slice(0, -1) : `${text}${key}`;
    }
    return text;
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    stderr.write('\n');
  }
}

async function* keys(): AsyncGenerator<string> {
  const { stdin } = process;
  for (;;) {
    const chunk = stdin.read() as Buffer | null;
    if (chunk !== null) yield* chunk.toString();
    else if (stdin.readableEnded) return;
    else await new Promise((resolve) => stdin.once('readable', resolve).once('end', resolve));
  }
}
