import { UsageError } from 'spillway-cli';

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
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const line = new SecretLine();
  const take = (chunk: Buffer) => {
    const rest = line.take(chunk.toString());
    if (rest === undefined) return;
    if (line.isCancelled) reject(new UsageError('no password was given'));
    else resolve(line.text);
    // What was typed ahead belongs to the next question.
    stdin.pause();
    if (rest !== '') stdin.unshift(Buffer.from(rest));
  };
  // First: whoever answers at once must not see the answer.
  stdin.setRawMode(true);
  stderr.write(question);
  stdin
    .on('data', take)
    .once('end', () => resolve(line.text))
    .resume();
  try {
    return await promise;
  } finally {
    stdin.off('data', take).setRawMode(false);
    stderr.write('\n');
  }
}

/** A line that is typed without being shown. */
class SecretLine {
  text = '';
  isCancelled = false;

  /** Gives what follows the line once it has ended. */
  take(keys: string): string | undefined {
    for (const [at, key] of [...keys].entries()) {
      this.isCancelled = key === '\u0003';
      const isEnd = key === '\r' || key === '\n' || key === '\u0004';
      if (isEnd || this.isCancelled) return [...keys].slice(at + 1).join('');
      const isBack = key === '\u007f' || key === '\b';
      this.text = isBack ? this.text.slice(0, -1) : `${this.text}${key}`;
    }
    return undefined;
  }
}
