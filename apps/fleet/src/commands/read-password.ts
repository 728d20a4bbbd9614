import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { UsageError } from 'spillway-cli';

const lengthMax = 1_024;

/** A password from standard input, from `FLEET_PASSWORD`, or typed twice without being shown. */
export async function readPassword(fromStdin: boolean): Promise<string> {
  if (fromStdin) return firstLine();
  const { FLEET_PASSWORD } = process.env;
  if (FLEET_PASSWORD !== undefined) return FLEET_PASSWORD;
  if (!process.stdin.isTTY) {
    throw new UsageError(
      'no password: type it at a terminal, send it with --password-stdin, or set FLEET_PASSWORD',
    );
  }
  const [password = '', again] = await typed('Password: ', 'Once more: ');
  if (again === password) return password;
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

/** Asks at the terminal, which shows nothing of what is typed; answers may be typed ahead. */
async function typed(...questions: readonly string[]): Promise<string[]> {
  const hidden = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: hidden, terminal: true });
  // Ctrl-C ends the lines, as the end of the input does.
  terminal.once('SIGINT', () => terminal.close());
  const lines = terminal[Symbol.asyncIterator]();
  const answers: string[] = [];
  for (const question of questions) {
    process.stderr.write(question);
    const { value, done } = await lines.next();
    process.stderr.write('\n');
    if (done) throw new UsageError('no password was given');
    answers.push(value);
  }
  terminal.close();
  return answers;
}
